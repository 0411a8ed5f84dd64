/* SPDX-License-Identifier: MIT */
/*
 * Accounts: taking from them, putting into them, waiting for them. Who may do what, and where an
 * account comes from, is in scope/budget.c.
 */
#ifndef KIN_SCOPE_ACCOUNT_H
#define KIN_SCOPE_ACCOUNT_H

#include "park/waitq.h"
#include "task/account.h"

#include <kin/time.h>

/* ---- amounts ---- */

/* a + b, without a limit when either has none or the sum would pass it. */
static inline uint64_t kin__amount_sum(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? KIN__UNLIMITED : sum;
}

/* All zero in options means the default. */
static inline bool kin__budget_is_default(const struct kin_budget *budget)
{
    return !(budget->ops | budget->memory | budget->spawns | budget->channel_ops |
             budget->syscalls);
}

struct kin__amounts kin__amounts_of(const struct kin_budget *budget);
/* A part that has a limit is never shown as one that has none. */
struct kin_budget kin__amounts_budget(const struct kin__amounts *amounts);

/* ---- accounts ---- */

/* An account that holds what came from its sources: that was drawn before. */
void kin__account_init(struct kin__account *account, struct kin__purse source,
                       const struct kin__amounts *given);
/* Uses amount of a part. False: there is less, and nothing has happened. */
bool kin__account_use(struct kin__account *account, enum kin__part part, uint64_t amount);
/* Takes back what was used. */
void kin__account_unuse(struct kin__account *account, enum kin__part part, uint64_t amount,
                        struct kin__wakes *wakes);
/* Puts in what was drawn elsewhere, and what was made. Those that wait for it get it first. */
void kin__account_add(struct kin__account *account, const struct kin__amounts *given,
                      const struct kin__amounts *minted, struct kin__wakes *wakes);
/* Ends an account: what is left of what it was given returns to its sources. */
void kin__account_settle(struct kin__account *account, struct kin__wakes *wakes);
struct kin__amounts kin__account_left(struct kin__account *account);

/* Takes more of a soft part from the source of an account that refills, or from further up, of
 * which one is used at once; interval: the most operations that one who is pooled takes at a time.
 * False: there is nothing. */
bool kin__account_refill(struct kin__account *account, enum kin__part part, uint64_t interval);
/* Waits in the running task until one of a soft part can be used: 0, KIN_TIMEOUT, KIN_CANCELLED,
 * KIN_BUDGET without memory to wait with, or when or_else, which may be NULL, comes first. */
int kin__account_wait(struct kin__account *account, enum kin__part part,
                      const struct kin__case *or_else, kin_time deadline);

/* ---- who paid for memory ---- */

/* Who pays for what an account uses of memory; the caller is the one who uses it, and keeps it by
 * kin__payer_hold. NULL: there is no memory to note it. */
struct kin__payer *kin__account_payer(struct kin__account *account);
void kin__payer_hold(struct kin__payer *payer);
void kin__payer_drop(struct kin__payer *payer);
/* A block of so many bytes is freed: whoever paid has them again, or who gave it to them; and the
 * block refers to the payer no more. */
void kin__payer_refund(struct kin__payer *payer, uint64_t amount);

/* ---- purses ---- */

static inline bool kin__part_is_hard(unsigned part)
{
    return part == KIN__PART_MEMORY || part == KIN__PART_SPAWNS;
}

/* The account that a part comes from; NULL: there is no limit. */
static inline struct kin__account *kin__purse_side(struct kin__purse purse, unsigned part)
{
    return kin__part_is_hard(part) ? purse.hard : purse.soft;
}

/* Takes amounts out, in order to give them to another account; all or, with enum kin_budget_part
 * of what is lacking, nothing. 0: done. */
enum kin_budget_part kin__purse_draw(struct kin__purse purse, const struct kin__amounts *amounts);
/* The same with one spawn on top, which is used; amounts become what was taken. */
enum kin__share {
    KIN__SHARE_EXACT, /* all of it or nothing */
    KIN__SHARE_FITS,  /* as much of it as there is */
    KIN__SHARE_HALF   /* at most half of what there is */
};
enum kin_budget_part kin__purse_admit(struct kin__purse purse, struct kin__amounts *amounts,
                                      enum kin__share how);
/* The same as far as there is something. What has no limit is taken only where there is none. */
void kin__purse_draw_some(struct kin__purse purse, struct kin__amounts *amounts);
/* Puts in what was made. */
void kin__purse_mint(struct kin__purse purse, const struct kin__amounts *amounts,
                     struct kin__wakes *wakes);
struct kin__amounts kin__purse_left(struct kin__purse purse);

#endif
