#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Runs every model of this directory with spin, and every negative control beside it.
#
# A model must be explored completely without a violation: "ok   name (N states)".
# A negative control plants a known bug with a -D switch, and spin must find it:
# "ok   name/bug_x (caught)". Anything else is a FAIL line with the reason. Each run is bounded in
# memory, depth and time. The last line counts; the status is 1 when one failed.
#
#   run.sh            all models, one on each CPU
#   run.sh idle       only those whose name contains "idle"
#   JOBS=1 run.sh     one after the other
#   CC=clang run.sh   another compiler for the generated verifiers

set -u
here=$(cd "$(dirname "$0")" && pwd)
cc=${CC:-cc}
jobs=${JOBS:-$(nproc 2>/dev/null || echo 1)}
seconds=300       # bound of one run
megabytes=3000

for tool in spin "$cc" timeout; do
    if ! command -v "$tool" >/dev/null 2>&1; then
        echo "skip models: $tool is not installed"
        echo "models: 0 passed, 0 failed, 1 skipped"
        exit 0
    fi
done

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# verify FILE OPTIONS: leaves the verifier's words in $work/out; false when it cannot be built or
# ran out of time.
verify() {
    file=$1
    shift
    (cd "$work" && spin -a "$@" "$here/$file.pml") >"$work/spin" 2>&1 || return 1
    (cd "$work" && "$cc" -w $level -DSAFETY -DNOFAIR -DMEMLIM=$megabytes -o pan pan.c) \
        >"$work/cc" 2>&1 || return 1
    (cd "$work" && timeout $seconds ./pan -m500000 >out 2>&1)
    [ $? -ne 124 ]
}

# check_model NAME FILE OPTIONS...: must hold, over all states.
check_model() {
    name=$1 level=-O1
    shift
    if ! verify "$@"; then
        echo "FAIL $name: cannot be built, or not finished in $seconds s"
    elif ! grep -q 'errors: 0$' "$work/out"; then
        echo "FAIL $name: $(grep '^pan:1:' "$work/out" | head -1)"
    elif grep -Eq 'depth too small|reached -DMEMLIM|out of memory' "$work/out"; then
        echo "FAIL $name: the search was not complete"
    else
        echo "ok   $name ($(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' "$work/out") states)"
    fi
}

# check_control NAME FILE OPTIONS...: must be caught by an assertion or as an invalid end state.
check_control() {
    name=$1 level=-O0 # the planted bug is found sooner than a compiler has thought about the search
    shift
    if ! verify "$@"; then
        echo "FAIL $name: cannot be built, or not caught in $seconds s"
    elif grep -Eq '^pan:1: (assertion violated|invalid end state)' "$work/out"; then
        echo "ok   $name (caught)"
    else
        echo "FAIL $name: the planted bug was not caught"
    fi
}

# One row of the list below, in a process of its own.
if [ "${1:-}" = --one ]; then
    check=check_$2
    shift 2
    $check "$@"
    exit
fi

only=${1:-}
case $only in
-h | --help) sed -n '3,15s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
case model in *"$only"*) only= ;; esac
only=${only%.pml}

row() {
    case $2 in *"$only"*) echo "$*" ;; esac
}
model() { row model "$@"; }
control() { row control "$@"; }

{
model   park_wake                       park_wake -DROUNDS=2
model   park_wake_3_parks               park_wake -DROUNDS=3 -DCANCELS=0
model   park_wake_3_cancel              park_wake -DROUNDS=3 -DTIMEOUTS=0
model   park_wake_only_cancel_ends      park_wake -DROUNDS=2 -DTIMEOUTS=0 -DLAST_DATA=0
control park_wake/bug_begin_store       park_wake -DTIMEOUTS=0 -DLAST_DATA=0 -DBUG_BEGIN_STORE
control park_wake/bug_commit_own        park_wake -DBUG_COMMIT_OWN
control park_wake/bug_no_ticket         park_wake -DBUG_NO_TICKET
control park_wake/bug_commit_blind      park_wake -DBUG_COMMIT_BLIND
control park_wake/bug_two_words         park_wake -DTIMEOUTS=0 -DCANCELS=0 -DBUG_TWO_WORDS

model   mask                            mask -DROUNDS=4
model   mask_kill                       mask -DROUNDS=3 -DKILLS=1
control mask/bug_no_shield              mask -DBUG_NO_SHIELD
control mask/bug_depth_apart            mask -DBUG_DEPTH_APART
control mask/bug_kill_shielded          mask -DKILLS=1 -DBUG_KILL_SHIELDED
control mask/bug_begin_keeps            mask -DBUG_BEGIN_KEEPS

model   deque                           deque -DP=3 -DRECLAIMS=1
model   deque_4_items                   deque -DP=4 -DTHIEVES=1
control deque/bug_lower_split           deque -DBUG_LOWER_SPLIT
control deque/bug_narrow                deque -DP=5 -DSTEALS=4 -DRECLAIMS=0 -DSPILLS=0 -DBUG_NARROW
control deque/bug_read_after            deque -DBUG_READ_AFTER
control deque/bug_full_by_split         deque -DBUG_FULL_BY_SPLIT
control deque/bug_publish_store         deque -DBUG_PUBLISH_STORE

model   bias                            bias
model   bias_strong                     bias -DSTRONG=1
control bias/bug_no_membarrier          bias -DBUG_NO_MEMBARRIER
control bias/bug_look_first             bias -DBUG_LOOK_FIRST
control bias/bug_strong_no_fence        bias -DSTRONG=1 -DBUG_STRONG_NO_FENCE
control bias/bug_early_give             bias -DBUG_EARLY_GIVE
model   bias_2_others                   bias -DOTHERS=2 -DENTRIES=2 -DRESCUES=2
control bias/bug_no_claim               bias -DOTHERS=2 -DENTRIES=2 -DRESCUES=2 -DBUG_NO_CLAIM

model   deque_single                    deque_single -DP=3
control deque_single/bug_no_fence       deque_single -DP=3 -DBUG_NO_FENCE
control deque_single/bug_batch          deque_single -DP=3 -DBUG_BATCH

model   idle                            idle
model   idle_3_pushes                   idle -DPUSHES=3
model   idle_3_workers                  idle -DWORKERS=3 -DCHILDREN=0
control idle/bug_no_push_fence          idle -DBUG_NO_PUSH_FENCE
control idle/bug_no_sleep_fence         idle -DBUG_NO_SLEEP_FENCE
control idle/bug_no_recheck             idle -DBUG_NO_RECHECK
control idle/bug_no_next                idle -DBUG_NO_NEXT
control idle/bug_recheck_silent         idle -DBUG_RECHECK_SILENT
control idle/bug_next_early             idle -DBUG_NEXT_EARLY
control idle/bug_count_apart            idle -DBUG_COUNT_APART

model   nap                             nap
model   nap_3_workers                   nap -DWORKERS=3
control nap/bug_no_membarrier           nap -DBUG_NO_MEMBARRIER
control nap/bug_look_first              nap -DBUG_LOOK_FIRST
control nap/bug_visible_only            nap -DBUG_VISIBLE_ONLY
control nap/bug_owner_early             nap -DBUG_OWNER_EARLY
control nap/bug_silent                  nap -DBUG_SILENT
control nap/bug_no_next                 nap -DBUG_NO_NEXT

model   nursery                         nursery
model   nursery_no_cancel               nursery -DCANCELS=0
control nursery/bug_three_words         nursery -DBUG_THREE_WORDS
control nursery/bug_touch_after         nursery -DBUG_TOUCH_AFTER
control nursery/bug_admit_early         nursery -DBUG_ADMIT_EARLY
control nursery/bug_walk_unlocked       nursery -DBUG_WALK_UNLOCKED
control nursery/bug_no_walk_token       nursery -DBUG_NO_WALK_TOKEN

model   spsc                            spsc
model   spsc_2                          spsc -DCAP=2 -DITEMS=4
model   spsc_close                      spsc -DCLOSES=1
model   spsc_close_2                    spsc -DCLOSES=1 -DCAP=2
model   spsc_gives_up                   spsc -DGIVES_UP=1
control spsc/bug_add                    spsc -DBUG_ADD
control spsc/bug_link_blind             spsc -DBUG_LINK_BLIND
control spsc/bug_link_cached            spsc -DBUG_LINK_CACHED
control spsc/bug_overtake               spsc -DBUG_OVERTAKE
control spsc/bug_touch_after            spsc -DBUG_TOUCH_AFTER
control spsc/bug_pin_stays              spsc -DBUG_PIN_STAYS
control spsc/bug_no_pin                 spsc -DGIVES_UP=1 -DBUG_NO_PIN
control spsc/bug_closed_apart           spsc -DCLOSES=1 -DBUG_CLOSED_APART
control spsc/bug_close_sender           spsc -DCLOSES=1 -DBUG_CLOSE_SENDER

model   grace                           grace
model   grace_no_kill                   grace -DGRACE=0
control grace/bug_look_first            grace -DGRACE=0 -DBUG_LOOK_FIRST
control grace/bug_walk_first            grace -DGRACE=0 -DBUG_WALK_FIRST
control grace/bug_no_depth              grace -DBUG_NO_DEPTH
control grace/bug_kill_depth            grace -DBUG_KILL_DEPTH
control grace/bug_shallow               grace -DBUG_SHALLOW
control grace/bug_open_blind            grace -DGRACE=0 -DBUG_OPEN_BLIND

model   chan                            chan -DSAME=1 -DCANCELS=0
model   chan_cancel                     chan -DSAME=1 -DONE_SENDER
model   chan_two                        chan -DONE_SENDER -DCANCELS=0
model   chan_two_cancel                 chan -DONE_SENDER -DNO_RECEIVER
model   chan_ring                       chan -DSAME=1 -DCANCELS=0 -DCAP=1
model   chan_ring_cancel                chan -DSAME=1 -DONE_SENDER -DCAP=1
model   chan_ring_two                   chan -DONE_SENDER -DCANCELS=0 -DCAP=1
model   chan_abort                      chan -DSAME=1 -DCANCELS=0 -DABORT
model   chan_unref                      chan -DSAME=1 -DONE_SENDER -DABORT -DUNREF
model   chan_unref_two                  chan -DNO_RECEIVER -DABORT -DUNREF
control chan/bug_link_apart             chan -DSAME=1 -DCANCELS=0 -DBUG_LINK_APART
control chan/bug_no_retry               chan -DSAME=1 -DCANCELS=0 -DBUG_NO_RETRY
control chan/bug_lost_claim             chan -DSAME=1 -DONE_SENDER -DBUG_LOST_CLAIM
control chan/bug_no_refill              chan -DSAME=1 -DCANCELS=0 -DCAP=1 -DBUG_NO_REFILL
control chan/bug_close_all              chan -DSAME=1 -DCANCELS=0 -DBUG_CLOSE_ALL
control chan/bug_late_link              chan -DSAME=1 -DCANCELS=0 -DBUG_LATE_LINK
control chan/bug_no_unpublish           chan -DONE_SENDER -DNO_RECEIVER -DABORT -DUNREF \
                                        -DBUG_NO_UNPUBLISH
control chan/bug_free_early             chan -DSAME=1 -DONE_SENDER -DABORT -DUNREF -DBUG_FREE_EARLY
control chan/bug_abort_gives            chan -DSAME=1 -DCANCELS=0 -DABORT -DBUG_ABORT_GIVES

model   uring_op                        uring_op
model   uring_op_4_calls                uring_op -DROUNDS=4
control uring_op/bug_leave_early        uring_op -DBUG_LEAVE_EARLY
control uring_op/bug_touch_after        uring_op -DBUG_TOUCH_AFTER
control uring_op/bug_late_cancel        uring_op -DBUG_LATE_CANCEL
control uring_op/bug_link_blind         uring_op -DBUG_LINK_BLIND

model   monitor                         monitor
control monitor/bug_leave_blind         monitor -DBUG_LEAVE_BLIND
control monitor/bug_tell_blind          monitor -DBUG_TELL_BLIND
control monitor/bug_no_peer             monitor -DBUG_NO_PEER
control monitor/bug_free_by_out         monitor -DBUG_FREE_BY_OUT
control monitor/bug_over_late           monitor -DBUG_OVER_LATE
} >"$work/rows"

xargs -r -L 1 -P "$jobs" "$here/run.sh" --one <"$work/rows" | tee "$work/lines"
passed=$(grep -c '^ok' "$work/lines")
failed=$(($(wc -l <"$work/rows") - passed)) # one that said nothing has failed
echo "models: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
