// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The watch: a timer that looks at channels with transfers. Without interrupts it is how
 * completions are found. With them it finds what nothing else does: a lost interrupt, and a device
 * that is gone, which interrupts nobody. It runs only while there are transfers.
 */
#include <linux/atomic.h>

#include "edma.h"

static enum hrtimer_restart tombolo_watch_fire(struct hrtimer *timer)
{
	struct tombolo_edma *edma = container_of(timer, struct tombolo_edma, watch);

	atomic_set(&edma->watching, 0);
	/* Before the look: who issues after it sees this and starts the timer again. */
	smp_mb();
	if (!tombolo_dmaengine_look(edma))
		return HRTIMER_NORESTART;
	if (atomic_cmpxchg(&edma->watching, 0, 1))
		return HRTIMER_NORESTART;
	hrtimer_forward_now(timer, edma->watch_interval);
	return HRTIMER_RESTART;
}

void tombolo_watch_init(struct tombolo_edma *edma)
{
	atomic_set(&edma->watching, 0);
#ifdef TOMBOLO_HAVE_HRTIMER_SETUP
	hrtimer_setup(&edma->watch, tombolo_watch_fire, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
#else
	hrtimer_init(&edma->watch, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
	edma->watch.function = tombolo_watch_fire;
#endif
}

void tombolo_watch_start(struct tombolo_edma *edma)
{
	if (!atomic_cmpxchg(&edma->watching, 0, 1))
		hrtimer_start(&edma->watch, edma->watch_interval, HRTIMER_MODE_REL_SOFT);
}

/* Once nobody starts it again. */
void tombolo_watch_stop(struct tombolo_edma *edma)
{
	hrtimer_cancel(&edma->watch);
	atomic_set(&edma->watching, 0);
}
