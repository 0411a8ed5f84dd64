/* SPDX-License-Identifier: MIT */
/*
 * Intrusive doubly linked list: a ring of links through a head of the same type.
 *
 *        +-> head <-> first <-> ... <-> last <-+
 *        +-------------------------------------+
 *
 * The link lives in the thing that is listed, so that linking allocates nothing and unlinking needs
 * neither the list nor a search. Invariant: link->next->prev == link and link->prev->next == link
 * for the head and every linked node. A head must be initialised. A node need not be: all zero
 * means "in no list", and so does a node that points to itself, which is how kin__list_remove
 * leaves it. Whoever shares a list brings the lock.
 */
#ifndef KIN_BASE_LIST_H
#define KIN_BASE_LIST_H

#include "base/assert.h"

#include <stdbool.h>
#include <stddef.h>

struct kin__list {
    struct kin__list *next, *prev;
};

/* The struct of which pointer is the member. The arm that is never taken makes the compiler compare
 * the pointer's type with the member's. */
#define KIN__CONTAINER_OF(pointer, type, member)                                                   \
    ((type *)(void *)((char *)(1 ? (pointer) : &((type *)0)->member) - offsetof(type, member)))

/* Walks the list from front to back with link as the current node. The node may be removed and
 * freed inside the loop; the node after it may not. */
#define KIN__LIST_EACH(link, head)                                                                 \
    for (struct kin__list *link##_end = (head), *link = link##_end->next,                          \
                          *link##_next = link->next;                                               \
         link != link##_end; link = link##_next, link##_next = link->next)

static inline void kin__list_init(struct kin__list *list)
{
    list->next = list;
    list->prev = list;
}

static inline bool kin__list_is_empty(const struct kin__list *head)
{
    KIN__ASSERT(head->next != NULL, "house");
    return head->next == head;
}

/* True while the node is in a list. Not for heads: they know whether they are empty. */
static inline bool kin__list_is_linked(const struct kin__list *link)
{
    return link->next != NULL && link->next != link;
}

/* Puts link between two neighbours; the functions below are what others call. */
static inline void kin__list_link(struct kin__list *link, struct kin__list *before,
                                  struct kin__list *after)
{
    KIN__ASSERT(!kin__list_is_linked(link), "house");
    KIN__ASSERT(before->next == after && after->prev == before, "house");
    link->prev = before;
    link->next = after;
    before->next = link;
    after->prev = link;
}

static inline void kin__list_push_front(struct kin__list *head, struct kin__list *link)
{
    kin__list_link(link, head, head->next);
}

static inline void kin__list_push_back(struct kin__list *head, struct kin__list *link)
{
    kin__list_link(link, head->prev, head);
}

/* Takes link out of whatever list it is in and leaves it self-linked; removing a self-linked node
 * changes nothing. */
static inline void kin__list_remove(struct kin__list *link)
{
    KIN__ASSERT(link->next != NULL && link->prev != NULL, "house");
    KIN__ASSERT(link->next->prev == link && link->prev->next == link, "house");
    link->next->prev = link->prev;
    link->prev->next = link->next;
    kin__list_init(link);
}

/* The node at the front; NULL when the list is empty. */
static inline struct kin__list *kin__list_first(const struct kin__list *head)
{
    return kin__list_is_empty(head) ? NULL : head->next;
}

/* The node at the back; NULL when the list is empty. */
static inline struct kin__list *kin__list_last(const struct kin__list *head)
{
    return kin__list_is_empty(head) ? NULL : head->prev;
}

/* The node after link; NULL when link is the last. */
static inline struct kin__list *kin__list_next(const struct kin__list *head,
                                               const struct kin__list *link)
{
    return link->next == head ? NULL : link->next;
}

/* Takes the node at the front out and returns it; NULL when the list is empty. */
static inline struct kin__list *kin__list_pop_front(struct kin__list *head)
{
    struct kin__list *link = kin__list_first(head);
    if (link != NULL)
        kin__list_remove(link);
    return link;
}

/* Appends all nodes of from to the back of head, in their order; from is empty afterwards. */
static inline void kin__list_splice(struct kin__list *head, struct kin__list *from)
{
    KIN__ASSERT(head != from, "house");
    if (kin__list_is_empty(from))
        return;
    from->next->prev = head->prev;
    head->prev->next = from->next;
    from->prev->next = head;
    head->prev = from->prev;
    kin__list_init(from);
}

#endif
