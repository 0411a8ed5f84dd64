/* SPDX-License-Identifier: MIT */
/*
 * The notes of the recorded run.
 *
 * They lie in a room of their own, one event behind the other, as a ring: a run that failed is
 * explained by its end. Where a note was made is found by following the frame pointers from here
 * outward, through the lab's own code, which is compiled with them, to the first frame of the
 * program, whose return address is all that is needed of it. What lies beyond may be anything: on
 * the stack of a task its bounds are kept to; elsewhere every word is read through the kernel,
 * which answers instead of faulting.
 */
#include "lab/record.h"

#include "base/text.h"
#include "lab/room.h"
#include "lab/world.h"
#include "plat/plat.h"

#include <signal.h>
#include <string.h>

#define EVENTS_MAX (size_t)8192
#define WAITS_BYTES 4096u

bool kin__record_is_on;
uint64_t kin__record_break_at;

static const struct kin__engine *engine;
static struct kin__room room; /* of EVENTS_MAX events, made when the first run is recorded */
static uint64_t noted;        /* events of this run */
static char waits[WAITS_BYTES];

void kin__record_begin(const struct kin__engine *of)
{
    noted = 0;
    waits[0] = '\0';
    engine = of;
    kin__record_is_on = kin__room_fits(&room, EVENTS_MAX, sizeof(struct kin__event));
}

void kin__record_end(void)
{
    kin__record_is_on = false;
}

#if defined(__x86_64__) || defined(__aarch64__)

/* Whether a frame lies on the stack of the task that runs. */
static bool is_on_task(uintptr_t at)
{
    const struct kin__worker *worker = kin__world.worker;
    const struct kin__stack *stack = worker ? worker->stack : NULL;
    return stack && at >= (uintptr_t)stack->low && at + 16 <= (uintptr_t)stack->base;
}

/* Reads the two words at the beginning of a frame. */
__attribute__((no_sanitize("address"))) static bool read_pair(uintptr_t at, uintptr_t pair[2])
{
    if (is_on_task(at)) {
        pair[0] = ((const volatile uintptr_t *)at)[0];
        pair[1] = ((const volatile uintptr_t *)at)[1];
        return true;
    }
    return kin__plat_peek((const void *)at, pair, 2 * sizeof(pair[0]));
}

/* Return addresses from this frame outward; a frame begins with where the next one lies. */
static unsigned walk(uintptr_t *frames, unsigned max)
{
    uintptr_t pair[2];
    uintptr_t at = (uintptr_t)__builtin_frame_address(0), first = at;
    unsigned count = 0;
    while (count < max && read_pair(at, pair)) {
#if defined(__aarch64__)
        pair[1] &= (UINT64_C(1) << 48) - 1; /* it may be signed in the bits no address uses */
#endif
        if (!pair[1])
            break;
        frames[count++] = pair[1];
        if (pair[0] <= at || pair[0] - at > (UINT64_C(1) << 20) || (pair[0] & 7) != 0 ||
            (is_on_task(first) && !is_on_task(pair[0])))
            break; /* no frame: the program keeps something else in this register */
        at = pair[0];
    }
    return count;
}

#else

static unsigned walk(uintptr_t *frames, unsigned max)
{
    (void)frames;
    (void)max;
    return 0;
}

#endif

static void copy(char *to, size_t bytes, const char *from)
{
    struct kin__text text;
    kin__text_init(&text, to, bytes);
    if (from)
        kin__text_str(&text, from);
}

void kin__record_slow(unsigned actor, enum kin__noted what, unsigned other, const char *object,
                      const char *text)
{
    struct kin__event *event = (struct kin__event *)room.base + noted++ % EVENTS_MAX;
    memset(event, 0, offsetof(struct kin__event, text));
    event->step = engine ? kin__engine_step(engine) : noted;
    event->time = kin__clock_now();
    event->actor = (uint16_t)actor;
    event->other = (uint16_t)other;
    event->what = (uint8_t)what;
    copy(event->text, sizeof(event->text), text);
    copy(event->path, sizeof(event->path), object);
    event->frames_count = (uint8_t)walk(event->frames, KIN__RECORD_FRAMES);
    if (kin__record_break_at && event->step >= kin__record_break_at) {
        kin__record_break_at = 0;
        (void)raise(SIGTRAP); /* --break-at: the program's frames are above this one */
    }
}

void kin__record_waits(const char *text)
{
    if (kin__record_is_on)
        copy(waits, sizeof(waits), text);
}

size_t kin__record_count(void)
{
    return noted < EVENTS_MAX ? (size_t)noted : EVENTS_MAX;
}

uint64_t kin__record_dropped(void)
{
    return noted < EVENTS_MAX ? 0 : noted - EVENTS_MAX;
}

const struct kin__event *kin__record_get(size_t i)
{
    if (i >= kin__record_count())
        return NULL;
    return (const struct kin__event *)room.base + (kin__record_dropped() + i) % EVENTS_MAX;
}

const char *kin__record_waits_text(void)
{
    return waits;
}
