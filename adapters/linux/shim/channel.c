// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Channels: their descriptors, what finishes, opening and closing. What clients call is in
 * dmaengine.c.
 *
 * A channel's transfers finish in the order in which they were submitted, so the client's
 * descriptors wait in a queue, and whatever Rust reports is about the first of them.
 */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/slab.h>

#include "channel.h"

/* What a channel is opened with. It grows when a client prepares more. */
#define TOMBOLO_DESCRIPTORS	64
#define TOMBOLO_SEGMENTS	512

static struct tombolo_desc *tombolo_desc_new(struct tombolo_chan *chan, gfp_t gfp)
{
	struct tombolo_desc *desc = kzalloc(sizeof(*desc), gfp);

	if (!desc)
		return NULL;
	dma_async_tx_descriptor_init(&desc->tx, &chan->chan);
	desc->tx.tx_submit = tombolo_tx_submit;
	list_add(&desc->all, &chan->all);
	return desc;
}

struct tombolo_desc *tombolo_desc_get(struct tombolo_chan *chan)
{
	struct tombolo_desc *desc, *tmp;

	if (!chan->free) {
		llist_for_each_entry_safe(desc, tmp, llist_del_all(&chan->returned), returned)
			tombolo_desc_put(chan, desc);
	}
	desc = chan->free;
	if (!desc)
		return tombolo_desc_new(chan, GFP_NOWAIT | __GFP_NOWARN);
	chan->free = desc->next;
	return desc;
}

/* Nobody uses them: no client, no bottom half. */
static void tombolo_desc_free_all(struct tombolo_chan *chan)
{
	struct tombolo_desc *desc, *tmp;

	list_for_each_entry_safe(desc, tmp, &chan->all, all)
		kfree(desc);
	INIT_LIST_HEAD(&chan->all);
	init_llist_head(&chan->returned);
	chan->free = NULL;
	tombolo_queue_init(&chan->pending);
	tombolo_queue_init(&chan->done);
}

/* The first pending transfer has ended. The cookie is complete before the client is told. */
void tombolo_finish(struct tombolo_chan *chan, u32 result, u32 residue)
{
	struct tombolo_desc *desc = tombolo_queue_pop(&chan->pending);

	tombolo_cookie_complete(&desc->tx);
	desc->result.result = result;
	desc->result.residue = residue;
	chan->completions++;
	tombolo_queue_push(&chan->done, desc);
}

/*
 * Takes what Rust reports. A period is the last of a report: it is returned, since its transfer
 * stays where it is. Returns how many things there were.
 */
static u32 tombolo_collect(struct tombolo_chan *chan, struct tombolo_tell *period)
{
	/* Rust writes what it reports, and nothing else is read. */
	struct tombolo_completion batch[TOMBOLO_BATCH] __uninitialized;
	const struct tombolo_completion *c;
	struct tombolo_desc *desc;
	u32 i, count;

	lockdep_assert_held(&chan->lock);
	if (!chan->rust || chan->edma->away)
		return 0;
	count = tombolo_edma_chan_poll(chan->rust, batch, TOMBOLO_BATCH);
	for (i = 0; i < count; i++) {
		c = &batch[i];
		desc = chan->pending.head;
		/* One that was terminated after it had finished is nobody's any more. */
		if (!desc || desc->cookie != c->cookie)
			continue;
		if (c->kind == TOMBOLO_FINISHED) {
			tombolo_finish(chan, c->result, c->residue);
			continue;
		}
		chan->completions++;
		tombolo_tell_get(period, &desc->tx);
	}
	return count;
}

/*
 * Tells clients, in order and outside of the lock: they may prepare, submit, issue and terminate.
 */
static void tombolo_tell_all(struct tombolo_chan *chan, struct tombolo_desc *done)
{
	struct tombolo_desc *desc;
	struct tombolo_tell tell;

	while (done) {
		desc = done;
		done = desc->next;
		tombolo_tell_get(&tell, &desc->tx);
		tombolo_tell(&tell, &desc->result);
		dma_descriptor_unmap(&desc->tx);
		llist_add(&desc->returned, &chan->returned);
	}
}

/* Under the lock. Periods that nobody was told of are not told any more. */
void tombolo_collect_finished(struct tombolo_chan *chan)
{
	struct tombolo_tell period;

	while (tombolo_collect(chan, &period) == TOMBOLO_BATCH)
		;
}

static void tombolo_bottom_half(struct tasklet_struct *tasklet)
{
	struct tombolo_chan *chan = container_of(tasklet, struct tombolo_chan, bottom_half);
	static const struct dmaengine_result no_error = { .result = DMA_TRANS_NOERROR };
	struct tombolo_tell period;
	struct tombolo_desc *done;
	unsigned int rounds = 64;
	unsigned long flags;
	u32 count;

	do {
		tombolo_tell_none(&period);
		spin_lock_irqsave(&chan->lock, flags);
		count = tombolo_collect(chan, &period);
		done = tombolo_queue_take(&chan->done);
		spin_unlock_irqrestore(&chan->lock, flags);

		tombolo_tell_all(chan, done);
		if (!tombolo_tell_is_none(&period))
			tombolo_tell(&period, &no_error);
		else if (count < TOMBOLO_BATCH)
			return;
	} while (--rounds);
	/* Others want to run too. */
	tasklet_schedule(&chan->bottom_half);
}

/* Waits until the hardware is as it should be. False if it is not in time. */
bool tombolo_wait(struct tombolo_chan *chan, int (*rests)(void *rust), unsigned int limit_ms)
{
	unsigned long end = jiffies + msecs_to_jiffies(limit_ms);
	unsigned long flags;
	bool rested, late;

	for (;;) {
		late = time_after(jiffies, end);
		spin_lock_irqsave(&chan->lock, flags);
		rested = !chan->rust || chan->edma->away || rests(chan->rust);
		spin_unlock_irqrestore(&chan->lock, flags);
		if (rested || late)
			return rested;
		usleep_range(50, 200);
	}
}

/* May sleep. */
int tombolo_chan_open(struct tombolo_chan *chan)
{
	struct tombolo_edma *edma = chan->edma;
	struct tombolo_chan_args args = {
		.list = chan->list.sz ? (__force void *)chan->list.vaddr.io : NULL,
		.list_address = chan->list.paddr,
		.list_size = chan->list.sz,
		.descriptors = TOMBOLO_DESCRIPTORS,
		.segments = TOMBOLO_SEGMENTS,
		.kind = chan->kind,
		.index = chan->index,
	};
	struct tombolo_desc *desc;
	unsigned long flags;
	bool opened;
	unsigned int i;
	int err = -ENOMEM;

	args.place = kmalloc(tombolo_edma_chan_size(), GFP_KERNEL);
	args.pool = kmalloc(tombolo_edma_pool_size(args.descriptors, args.segments), GFP_KERNEL);
	if (!args.place || !args.pool)
		goto free;
	for (i = 0; i < TOMBOLO_DESCRIPTORS; i++) {
		desc = tombolo_desc_new(chan, GFP_KERNEL);
		if (!desc)
			goto free;
		tombolo_desc_put(chan, desc);
	}
	raw_spin_lock_irqsave(&edma->control_lock, flags);
	if (edma->away)
		err = -EBUSY;
	else if (edma->dead || !edma->handles.control)
		err = -ENXIO;
	else
		err = tombolo_edma_chan_open(edma->handles.control, &args);
	raw_spin_unlock_irqrestore(&edma->control_lock, flags);
	if (err)
		goto free;

	chan->place = args.place;
	chan->pool = args.pool;
	chan->room.descriptors = args.descriptors;
	chan->room.segments = args.segments;
	spin_lock_irqsave(&chan->lock, flags);
	/*
	 * Who stops the device takes the lock after it said so, and has the channel from then on.
	 */
	opened = !edma->dead;
	if (opened)
		chan->rust = args.place;
	spin_unlock_irqrestore(&chan->lock, flags);
	if (opened)
		return 0;
	tombolo_edma_chan_close(args.place);
	chan->place = NULL;
	chan->pool = NULL;
	err = -ENXIO;
free:
	tombolo_desc_free_all(chan);
	kfree(args.pool);
	kfree(args.place);
	/* -ENODEV would make the core forget the device. */
	return err == -ENODEV ? -ENXIO : err;
}

/* What the channel counted, also for earlier holders. */
static void tombolo_stats_locked(struct tombolo_chan *chan, struct tombolo_stats *stats)
{
	const u64 *from = (const u64 *)&chan->past;
	u64 *to = (u64 *)stats;
	unsigned int i;

	lockdep_assert_held(&chan->lock);
	memset(stats, 0, sizeof(*stats));
	if (chan->rust)
		tombolo_edma_chan_stats(chan->rust, stats);
	for (i = 0; i < sizeof(*stats) / sizeof(u64); i++)
		to[i] += from[i];
}

void tombolo_dmaengine_stats(struct tombolo_chan *chan, struct tombolo_stats *stats)
{
	unsigned long flags;

	spin_lock_irqsave(&chan->lock, flags);
	tombolo_stats_locked(chan, stats);
	spin_unlock_irqrestore(&chan->lock, flags);
}

/* Takes the channel from Rust. Whatever is pending stays with the caller. May sleep. */
void tombolo_chan_detach(struct tombolo_chan *chan)
{
	struct tombolo_stats stats;
	unsigned long flags;
	void *rust;

	spin_lock_irqsave(&chan->lock, flags);
	tombolo_stats_locked(chan, &stats);
	chan->past = stats;
	rust = chan->rust;
	chan->rust = NULL;
	chan->held = false;
	chan->issue_later = false;
	chan->terminate_later = false;
	spin_unlock_irqrestore(&chan->lock, flags);
	if (!rust)
		return;
	if (tombolo_edma_chan_close(rust))
		pci_warn(chan->edma->pdev, "%s channel %u did not come to rest\n",
			 chan->kind ? "read" : "write", chan->index);
	kfree(chan->pool);
	kfree(chan->place);
	chan->pool = NULL;
	chan->place = NULL;
}

/* Nothing is pending, and nobody is told any more. May sleep. */
void tombolo_chan_close(struct tombolo_chan *chan)
{
	unsigned int left = 250;

	/* Closing asks the device, so one that is being reset is waited for. */
	while (READ_ONCE(chan->edma->away) && !READ_ONCE(chan->edma->dead) && left--)
		msleep(20);
	tombolo_wait(chan, tombolo_edma_chan_is_quiescent, 1000);
	tombolo_chan_detach(chan);
	/* The watch may have called it once more. */
	tasklet_kill(&chan->bottom_half);
	tombolo_desc_free_all(chan);
}

void tombolo_chan_init(struct tombolo_edma *edma, struct tombolo_chan *chan)
{
	chan->edma = edma;
	spin_lock_init(&chan->lock);
	tasklet_setup(&chan->bottom_half, tombolo_bottom_half);
	INIT_LIST_HEAD(&chan->all);
	init_llist_head(&chan->returned);
	tombolo_queue_init(&chan->pending);
	tombolo_queue_init(&chan->done);
	chan->chan.cookie = DMA_MIN_COOKIE;
	chan->chan.completed_cookie = DMA_MIN_COOKIE;
	chan->chan.device = &edma->dma;
	list_add_tail(&chan->chan.device_node, &edma->dma.channels);
}

/* One look of the watch. Returns whether there are transfers. */
bool tombolo_dmaengine_look(struct tombolo_edma *edma)
{
	struct tombolo_chan *chan;
	unsigned long flags;
	bool any = false;
	unsigned int i;

	for (i = 0; i < edma->count; i++) {
		chan = &edma->channels[i];
		spin_lock_irqsave(&chan->lock, flags);
		if (chan->rust && !edma->away && tombolo_edma_chan_has_transfers(chan->rust)) {
			any = true;
			if (chan->watched != chan->completions)
				chan->stalled = 0;
			chan->watched = chan->completions;
			if (edma->polled) {
				tasklet_schedule(&chan->bottom_half);
			} else if (++chan->stalled > 2) {
				/* Its errors come out as completions. */
				tombolo_edma_chan_look(chan->rust);
				tasklet_schedule(&chan->bottom_half);
			}
		} else {
			chan->stalled = 0;
		}
		spin_unlock_irqrestore(&chan->lock, flags);
	}
	return any;
}

/* Makes every channel look at what is left for it. From any context. */
void tombolo_dmaengine_kick(struct tombolo_edma *edma)
{
	unsigned int i;

	for (i = 0; i < edma->count; i++)
		tasklet_schedule(&edma->channels[i].bottom_half);
}
