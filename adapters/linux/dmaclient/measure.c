// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * measure: transfers of one size, one at a time, between two markers that a counting plugin of the
 * machine's emulator looks for; idle: the same markers around a sleep.
 *
 * The waits have no timer of their own, which would be measured too; the runner watches instead.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/err.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "dmaclient.h"

struct dmac_meter {
	struct dmac_run *run;
	struct dmac_xfer xfer;
	struct dmac_ring ring;
	u64 slave;
	/* Transfers that ended. */
	unsigned int done;
	bool given_up;
	struct completion ended;
	/* To look at the data: a channel of the other direction, if there is one. */
	struct dmac_xfer other;
	struct dmac_ring other_ring;
	u8 *image;
};

/* nopl 0x5dc000NN(%rax,%rax,1), NN being the number. */
static noinline void dmac_mark(unsigned int number)
{
#ifdef CONFIG_X86_64
	asm volatile(".set .Ldmac_mark, 0\n"
		     ".rept 256\n\t"
		     "cmpl $.Ldmac_mark, %0\n\t"
		     "jne 771f\n\t"
		     ".byte 0x0f, 0x1f, 0x84, 0x00, .Ldmac_mark, 0x00, 0xc0, 0x5d\n"
		     "771:\n"
		     ".set .Ldmac_mark, .Ldmac_mark + 1\n"
		     ".endr"
		     : : "r" (number) : "cc", "memory");
#endif
}

static bool dmac_meter_once(struct dmac_meter *meter)
{
	struct dmac_xfer *xfer = &meter->xfer;

	reinit_completion(&xfer->done);
	if (!dmac_xfer_submit(xfer, meter->run->cfg.combined ? &meter->slave : NULL))
		return false;
	dma_async_issue_pending(xfer->chan->chan);
	wait_for_completion(&xfer->done);
	if (READ_ONCE(meter->given_up) || xfer->result != DMA_TRANS_NOERROR)
		return false;
	WRITE_ONCE(meter->done, meter->done + 1);
	return true;
}

static bool dmac_meter_many(struct dmac_meter *meter, unsigned int count)
{
	while (count--)
		if (!dmac_meter_once(meter) || dmac_stopping(meter->run))
			return false;
	return true;
}

static int dmac_meter_thread(void *param)
{
	struct dmac_meter *meter = param;
	struct dmac_run *run = meter->run;
	ktime_t begin;
	bool good;

	good = dmac_meter_many(meter, run->cfg.warmup);
	if (good) {
		dmac_mark(run->cfg.mark_begin);
		begin = ktime_get();
		good = dmac_meter_many(meter, run->cfg.transfers);
		run->ns = ktime_to_ns(ktime_sub(ktime_get(), begin));
		dmac_mark(run->cfg.mark_end);
	}
	if (!good && !run->failure)
		run->failure = dmac_stopping(run) ? "stopped" : "a transfer failed";
	complete(&meter->ended);
	return 0;
}

/* The watch has to be long enough not to be part of what is measured. */
static void dmac_meter_watch(struct dmac_meter *meter)
{
	struct dmac_xfer *xfer = &meter->xfer;
	struct dmac_run *run = meter->run;
	unsigned int before, done = 0;

	for (;;) {
		before = done;
		if (wait_for_completion_timeout(&meter->ended, dmac_timeout(run)))
			return;
		done = READ_ONCE(meter->done);
		if (done == before)
			break;
	}
	if (dma_async_is_tx_complete(xfer->chan->chan, xfer->cookie, NULL, NULL) == DMA_COMPLETE)
		atomic64_inc(&run->stats.silent);
	else
		atomic64_inc(&run->stats.timeouts);
	WRITE_ONCE(meter->given_up, true);
	complete(&xfer->done);
	wait_for_completion(&meter->ended);
}

/* Moves the image the other way: before a measure of reads, or after one of writes. */
static bool dmac_other_way(struct dmac_meter *meter)
{
	struct dmac_xfer *other = &meter->other;

	if (dmac_xfer_start(other, meter->slave))
		return false;
	dma_async_issue_pending(other->chan->chan);
	return !dmac_xfer_wait(other) && other->result == DMA_TRANS_NOERROR;
}

static void dmac_compare_measured(struct dmac_meter *meter, bool good)
{
	struct dmac_run *run = meter->run;
	const struct dmac_buf *buf = &meter->xfer.buf;

	if (!good) {
		run->failure = run->failure ?: "the transfer that is compared failed";
		return;
	}
	if (meter->other.chan->dir == DMA_DEV_TO_MEM)
		buf = &meter->other.buf;
	atomic64_add(dmac_buf_check(buf, meter->image), &run->stats.mismatches);
	run->compared = true;
}

static void dmac_meter_run(struct dmac_meter *meter)
{
	bool reads = meter->xfer.chan->dir == DMA_DEV_TO_MEM, good = true;
	struct task_struct *task;

	if (meter->other.chan && reads)
		good = dmac_other_way(meter);
	task = dmac_thread_start(dmac_meter_thread, meter, 0);
	if (IS_ERR(task)) {
		meter->run->failure = "no thread to be had";
		return;
	}
	dmac_meter_watch(meter);
	dmac_thread_join(task, NULL);
	if (!meter->other.chan || meter->run->failure)
		return;
	/* The measured mapping is given back first: the data is the processor's then. */
	dmac_xfer_unmap(&meter->xfer);
	if (!reads)
		good = dmac_other_way(meter);
	dmac_compare_measured(meter, good);
}

static int dmac_meter_xfer(struct dmac_meter *meter, struct dmac_xfer *xfer,
			   struct dmac_chan *chan, struct dmac_ring *ring)
{
	const struct dmac_config *cfg = &meter->run->cfg;
	size_t each = meter->run->length / cfg->segments;
	int err;

	if (dmac_ring_init(ring))
		return -ENOMEM;
	err = dmac_xfer_init(xfer, chan, ring, meter->run->length, cfg->segments);
	if (err)
		return err;
	dmac_buf_even(&xfer->buf, cfg->segments, each);
	if (chan->dir == DMA_MEM_TO_DEV)
		dmac_buf_load(&xfer->buf, meter->image);
	else
		dmac_buf_poison(&xfer->buf, meter->image);
	return 0;
}

static int dmac_meter_place(struct dmac_meter *meter, struct dmac_chan *chan)
{
	const struct dmac_config *cfg = &meter->run->cfg;
	struct dmac_run *run = meter->run;
	struct dmac_window window;
	size_t each;
	int err;

	err = dmac_window(run, chan, 0, 1, &window);
	if (err)
		return err;
	meter->slave = window.addr;
	each = rounddown(min_t(u64, window.size, cfg->max_len) / cfg->segments, chan->align);
	if (!each || each > chan->max_seg || cfg->segments > chan->max_sg) {
		run->failure = "max_len and segments do not fit together or the memory";
		return -EINVAL;
	}
	run->length = each * cfg->segments;
	return 0;
}

static int dmac_meter_init(struct dmac_meter *meter, enum dma_transfer_direction dir)
{
	enum dma_transfer_direction back =
		dir == DMA_MEM_TO_DEV ? DMA_DEV_TO_MEM : DMA_MEM_TO_DEV;
	struct dmac_chan *chan = dmac_chan_of(meter->run, dir, 0);
	struct dmac_run *run = meter->run;
	struct rnd_state rnd;
	int err;

	init_completion(&meter->ended);
	if (!chan) {
		run->failure = "no channel of this direction";
		return -ENODEV;
	}
	err = dmac_meter_place(meter, chan);
	if (err)
		return err;
	meter->image = kvmalloc(run->length, GFP_KERNEL);
	if (!meter->image)
		return -ENOMEM;
	prandom_seed_state(&rnd, run->seed);
	prandom_bytes_state(&rnd, meter->image, run->length);
	err = dmac_meter_xfer(meter, &meter->xfer, chan, &meter->ring);
	if (err)
		return err;
	meter->xfer.keep_mapped = true;
	chan = dmac_chan_of(run, back, 0);
	if (chan)
		err = dmac_meter_xfer(meter, &meter->other, chan, &meter->other_ring);
	err = err ?: dmac_xfer_map(&meter->xfer);
	run->segments = meter->xfer.mapped;
	return err ?: dmac_config_chan(meter->xfer.chan, meter->slave);
}

static void dmac_measure_free(struct dmac_run *run)
{
	struct dmac_meter *meter = run->state;

	dmac_xfer_free(&meter->xfer);
	dmac_xfer_free(&meter->other);
	dmac_ring_free(&meter->ring);
	dmac_ring_free(&meter->other_ring);
	kvfree(meter->image);
	kfree(meter);
}

void dmac_measure(struct dmac_run *run)
{
	bool writes = !strcmp(run->cfg.direction, "to_device");
	struct dmac_meter *meter;

	meter = kzalloc_obj(*meter, GFP_KERNEL);
	if (!meter) {
		run->failure = "out of memory";
		return;
	}
	meter->run = run;
	run->state = meter;
	run->free_state = dmac_measure_free;
	if (dmac_meter_init(meter, writes ? DMA_MEM_TO_DEV : DMA_DEV_TO_MEM))
		run->failure = run->failure ?: "out of memory, or no configuration taken";
	else
		dmac_meter_run(meter);
}

void dmac_idle(struct dmac_run *run)
{
	unsigned int left = run->cfg.duration_ms;
	ktime_t begin;

	dmac_mark(run->cfg.mark_begin);
	begin = ktime_get();
	if (wait_event_timeout(run->wq, dmac_stopping(run), msecs_to_jiffies(left)))
		run->failure = "stopped";
	run->ns = ktime_to_ns(ktime_sub(ktime_get(), begin));
	dmac_mark(run->cfg.mark_end);
}
