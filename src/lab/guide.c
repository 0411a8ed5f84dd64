/* SPDX-License-Identifier: MIT */
/*
 * Guides: how a run goes on behind a decision that was changed because of a race.
 *
 * The race of step i and a later step d comes out the other way if the run first makes those steps
 * between i and d that do not come after i, and then d. The search tries the actor of the first of
 * these steps at node i, and a guide keeps the actors of the other ones in their order. A run
 * without a guide goes on with any actor, and often such a run comes to a node where all actors
 * that can go on sleep: the run was for nothing. A run with a guide comes to step d, which wakes
 * the actor of step i.
 *
 * A guide is advice. At a new node any actor that does not sleep may go first. So the search stays
 * complete if a guide ends early: there was no memory, or an actor of the guide cannot go on.
 *
 * Guides are chains of small pieces. A node has its guides as long as the node stands on the path;
 * the search uses and forgets guides in another order than it made them.
 */
#include "base/assert.h"
#include "lab/state.h"
#include "lab/tree.h"

#define PIECES_MAX (1u << 17) /* 4 MiB: a search that stays below it has all its guides */
#define PIECE_ACTORS (sizeof(((struct kin__guide *)0)->actors) / sizeof(uint16_t))

static struct kin__guide *piece_at(const struct kin__tree *tree, uint32_t piece)
{
    KIN__ASSERT(piece > 0 && piece <= tree->guide_count, "house");
    return (struct kin__guide *)tree->guides.base + piece;
}

/* A piece that is empty; 0: there is no room. */
static uint32_t make_piece(struct kin__tree *tree)
{
    uint32_t piece = tree->guide_free;

    if (piece) {
        tree->guide_free = piece_at(tree, piece)->other;
    } else {
        if (tree->guide_count == PIECES_MAX ||
            !kin__room_fits(&tree->guides, tree->guide_count + 2u, sizeof(struct kin__guide)))
            return 0;
        piece = ++tree->guide_count; /* the first place stays empty: 0 is none */
    }
    *piece_at(tree, piece) = (struct kin__guide){.count = 0};
    return piece;
}

static void free_piece(struct kin__tree *tree, uint32_t piece)
{
    piece_at(tree, piece)->other = tree->guide_free;
    tree->guide_free = piece;
}

static void free_guide(struct kin__tree *tree, uint32_t guide)
{
    for (uint32_t rest; guide; guide = rest) { /* ends: a chain has a last piece */
        rest = piece_at(tree, guide)->rest;
        free_piece(tree, guide);
    }
}

void kin__guide_add(struct kin__tree *tree, uint32_t *first, uint32_t *last, unsigned actor)
{
    if (*last == 0 || piece_at(tree, *last)->count == PIECE_ACTORS) {
        const uint32_t piece = make_piece(tree);
        if (piece == 0)
            return;
        if (*last)
            piece_at(tree, *last)->rest = piece;
        else
            *first = piece;
        *last = piece;
    }
    struct kin__guide *guide = piece_at(tree, *last);
    guide->actors[guide->count++] = (uint16_t)actor;
}

void kin__guide_give(struct kin__tree *tree, struct kin__node *node, uint32_t guide)
{
    if (guide == 0)
        return;
    piece_at(tree, guide)->other = node->guides;
    node->guides = guide;
}

void kin__guide_take(struct kin__tree *tree, struct kin__node *node)
{
    uint32_t *link = &node->guides;

    free_guide(tree, tree->guide);
    while (*link && piece_at(tree, *link)->actors[0] != node->actor) /* ends: as in free_guide */
        link = &piece_at(tree, *link)->other;
    tree->guide = *link;
    tree->guide_at = 1; /* the first one is the node's actor */
    if (*link)
        *link = piece_at(tree, *link)->other;
}

unsigned kin__guide_next(struct kin__tree *tree, uint64_t can)
{
    if (tree->guide && tree->guide_at == piece_at(tree, tree->guide)->count) {
        const uint32_t rest = piece_at(tree, tree->guide)->rest;
        free_piece(tree, tree->guide);
        tree->guide = rest;
        tree->guide_at = 0;
    }
    if (tree->guide == 0)
        return KIN__NOBODY;
    const unsigned actor = piece_at(tree, tree->guide)->actors[tree->guide_at++];
    if (can >> actor & 1)
        return actor;
    free_guide(tree, tree->guide);
    tree->guide = 0;
    return KIN__NOBODY;
}

void kin__guide_forget(struct kin__tree *tree, struct kin__node *node)
{
    for (uint32_t other; node->guides; node->guides = other) { /* ends: as in free_guide */
        other = piece_at(tree, node->guides)->other;
        free_guide(tree, node->guides);
    }
}
