// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * tombolo_dmaclient: a slave client that loads a dmaengine provider of the dw-edma kind and checks
 * what it does. Parameters, and the one run at a time.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kthread.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "dmaclient.h"

static struct dmac_config param = {
	.mode = "verify",
	.direction = "from_device",
	.threads = 1,
	.depth = 4,
	.transfers = 1000,
	.max_len = 4096,
	.max_sg = 16,
	.guard = 16,
	.timeout_ms = 5000,
	.max_errors = 16,
	.segments = 1,
	.warmup = 100,
	.duration_ms = 1000,
	.terminate_every = 16,
	.mark_end = 1,
	.data_bar = -1,
};

module_param_string(device, param.device, sizeof(param.device), 0644);
MODULE_PARM_DESC(device, "the DMA device, 0000:00:01.0 for example");
module_param_string(mode, param.mode, sizeof(param.mode), 0644);
MODULE_PARM_DESC(mode, "verify (default), hold, reenter, measure or idle");
module_param_named(channels, param.channels, uint, 0644);
MODULE_PARM_DESC(channels, "channels of each direction, 0: all (default)");
module_param_named(threads, param.threads, uint, 0644);
MODULE_PARM_DESC(threads, "verify: threads for each pair of channels (1)");
module_param_named(depth, param.depth, uint, 0644);
MODULE_PARM_DESC(depth, "verify, hold: transfers at a time of a thread, or of a channel (4)");
module_param_named(transfers, param.transfers, uint, 0644);
MODULE_PARM_DESC(transfers, "of each thread, or channel (1000)");
module_param_named(max_len, param.max_len, uint, 0644);
MODULE_PARM_DESC(max_len, "bytes of a transfer, at most (4096)");
module_param_named(max_sg, param.max_sg, uint, 0644);
MODULE_PARM_DESC(max_sg, "pieces of a transfer, at most (16)");
module_param_named(guard, param.guard, uint, 0644);
MODULE_PARM_DESC(guard, "verify: neighbours in device memory to watch, in bytes (16)");
module_param_named(align, param.align, uint, 0644);
MODULE_PARM_DESC(align, "lengths and addresses are multiples of it, 0: as the provider says (default)");
module_param_named(seed, param.seed, uint, 0644);
MODULE_PARM_DESC(seed, "of what is random, 0: a new one each time (default)");
module_param_named(timeout_ms, param.timeout_ms, uint, 0644);
MODULE_PARM_DESC(timeout_ms, "of each wait (5000)");
module_param_named(max_errors, param.max_errors, uint, 0644);
MODULE_PARM_DESC(max_errors, "verify: failed transfers that end the run (16)");
module_param_named(combined, param.combined, uint, 0644);
MODULE_PARM_DESC(combined, "1: configure and prepare in one call, if this kernel can (0)");
module_param_named(non_list, param.non_list, uint, 0644);
MODULE_PARM_DESC(non_list, "1: HDMA native without a list (0)");
module_param_named(data_bar, param.data_bar, int, 0644);
MODULE_PARM_DESC(data_bar, "BAR with the device memory, -1: each channel's own (default)");
module_param_named(data_offset, param.data_offset, ullong, 0644);
MODULE_PARM_DESC(data_offset, "where it begins in the BAR (0)");
module_param_named(data_size, param.data_size, ullong, 0644);
MODULE_PARM_DESC(data_size, "how long it is, 0: to the end of the BAR (default)");
module_param_named(data_address, param.data_address, ullong, 0644);
MODULE_PARM_DESC(data_address, "its slave address instead; needs data_size");
module_param_string(direction, param.direction, sizeof(param.direction), 0644);
MODULE_PARM_DESC(direction, "measure: from_device (default) or to_device");
module_param_named(segments, param.segments, uint, 0644);
MODULE_PARM_DESC(segments, "measure: pieces of a transfer (1)");
module_param_named(warmup, param.warmup, uint, 0644);
MODULE_PARM_DESC(warmup, "measure: transfers before the first marker (100)");
module_param_named(duration_ms, param.duration_ms, uint, 0644);
MODULE_PARM_DESC(duration_ms, "idle: between the markers (1000)");
module_param_named(mark_begin, param.mark_begin, uint, 0644);
MODULE_PARM_DESC(mark_begin, "measure, idle: number of the first marker (0)");
module_param_named(mark_end, param.mark_end, uint, 0644);
MODULE_PARM_DESC(mark_end, "measure, idle: number of the second marker (1)");
module_param_named(terminate_every, param.terminate_every, uint, 0644);
MODULE_PARM_DESC(terminate_every, "reenter: callbacks from one that terminates to the next, 0: never (16)");
module_param_named(request_again, param.request_again, uint, 0644);
MODULE_PARM_DESC(request_again, "hold: 1: ask for one more channel before letting go (0)");

static const char * const dmac_modes[] = {
	[DMAC_VERIFY] = "verify",
	[DMAC_HOLD] = "hold",
	[DMAC_REENTER] = "reenter",
	[DMAC_MEASURE] = "measure",
	[DMAC_IDLE] = "idle",
};

/* Under the module's parameter lock: no parameter of it is read or written meanwhile. */
static struct dmac_run *dmac_current;
static bool dmac_loaded;
static bool dmac_run_at_load = true;

struct task_struct *dmac_thread_start(int (*run)(void *), void *with, unsigned int nth)
{
	struct task_struct *task = kthread_create(run, with, "dmaclient/%u", nth);

	if (IS_ERR(task))
		return task;
	get_task_struct(task);
	wake_up_process(task);
	return task;
}

/* A thread that ends by itself, and says so first if there is a completion. */
void dmac_thread_join(struct task_struct *task, struct completion *done)
{
	if (done)
		wait_for_completion(done);
	kthread_stop(task);
	put_task_struct(task);
}

static void dmac_run_mode(struct dmac_run *run)
{
	switch (run->mode) {
	case DMAC_VERIFY:
		dmac_verify(run);
		break;
	case DMAC_HOLD:
		dmac_hold(run);
		break;
	case DMAC_REENTER:
		dmac_reenter(run);
		break;
	case DMAC_MEASURE:
		dmac_measure(run);
		break;
	case DMAC_IDLE:
		dmac_idle(run);
		break;
	}
}

static void dmac_report(const struct dmac_run *run)
{
	char *text = kmalloc(PAGE_SIZE, GFP_KERNEL);

	if (!text)
		return;
	dmac_result_format(run, false, text, PAGE_SIZE);
	pr_info("result %s\n", text);
	kfree(text);
}

/* Memory is given back when no channel can reach it any more. */
static int dmac_runner(void *param)
{
	struct dmac_run *run = param;
	bool stopped;

	if (run->mode == DMAC_IDLE || !dmac_chans_request(run))
		dmac_run_mode(run);
	stopped = run->mode != DMAC_HOLD && dmac_stopping(run);
	dmac_chans_terminate(run);
	dmac_chans_release(run);
	if (run->free_state)
		run->free_state(run);
	dmac_chans_forget(run);
	if (stopped && !run->failure)
		run->failure = "stopped";
	dmac_judge(run);
	dmac_report(run);
	complete_all(&run->ended);
	return 0;
}

static bool dmac_between(const char *name, unsigned int value, unsigned int least,
			 unsigned int most)
{
	if (value >= least && value <= most)
		return true;
	pr_err("%s=%u is not from %u to %u\n", name, value, least, most);
	return false;
}

static bool dmac_numbers_valid(const struct dmac_config *cfg)
{
	return dmac_between("channels", cfg->channels, 0, DMAC_MAX_CHANNELS) &&
	       dmac_between("threads", cfg->threads, 1, DMAC_MAX_THREADS) &&
	       dmac_between("depth", cfg->depth, 2, DMAC_MAX_DEPTH) &&
	       dmac_between("transfers", cfg->transfers, 1, INT_MAX) &&
	       dmac_between("max_len", cfg->max_len, DMAC_GAP, DMAC_MAX_LEN) &&
	       dmac_between("max_sg", cfg->max_sg, 1, DMAC_MAX_SG) &&
	       dmac_between("guard", cfg->guard, 0, PAGE_SIZE) &&
	       dmac_between("align", cfg->align, 0, DMAC_GAP) &&
	       dmac_between("timeout_ms", cfg->timeout_ms, 1, 600000) &&
	       dmac_between("max_errors", cfg->max_errors, 1, INT_MAX) &&
	       dmac_between("combined", cfg->combined, 0, 1) &&
	       dmac_between("non_list", cfg->non_list, 0, 1) &&
	       dmac_between("segments", cfg->segments, 1, DMAC_MAX_SG) &&
	       dmac_between("warmup", cfg->warmup, 0, INT_MAX) &&
	       dmac_between("duration_ms", cfg->duration_ms, 1, 600000) &&
	       dmac_between("mark_begin", cfg->mark_begin, 0, U8_MAX) &&
	       dmac_between("mark_end", cfg->mark_end, 0, U8_MAX) &&
	       dmac_between("data_bar", cfg->data_bar + 1, 0, 6);
}

/* What is not a number, or not by itself. */
static const char *dmac_objection(const struct dmac_config *cfg)
{
	if (!cfg->device[0] && strcmp(cfg->mode, "idle"))
		return "device= is missing: the name of a DMA device, such as 0000:00:01.0";
	if (strcmp(cfg->direction, "from_device") && strcmp(cfg->direction, "to_device"))
		return "direction is neither from_device nor to_device";
	if (cfg->align && !is_power_of_2(cfg->align))
		return "align is not a power of two";
	if (cfg->data_address && !cfg->data_size)
		return "data_address needs data_size";
	if (cfg->data_address && cfg->data_bar >= 0)
		return "data_address and data_bar exclude each other";
	if (cfg->combined && !DMAC_CAN_COMBINE)
		return "this kernel has no call for combined=1";
	return NULL;
}

static void dmac_forget(void)
{
	if (!dmac_current)
		return;
	dmac_thread_join(dmac_current->task, &dmac_current->ended);
	kfree(dmac_current);
	dmac_current = NULL;
}

/* echo writes a line. */
static void dmac_trim(struct dmac_config *cfg)
{
	strim(cfg->device);
	strim(cfg->mode);
	strim(cfg->direction);
}

static int dmac_start(void)
{
	struct dmac_run *run;
	const char *objection;
	int mode;

	if (dmac_current && !completion_done(&dmac_current->ended)) {
		pr_err("a run is under way: write 0 to run first\n");
		return -EBUSY;
	}
	dmac_trim(&param);
	mode = match_string(dmac_modes, ARRAY_SIZE(dmac_modes), param.mode);
	objection = mode < 0 ? "mode is none of verify, hold, reenter, measure and idle" :
			       dmac_objection(&param);
	if (objection)
		pr_err("%s\n", objection);
	if (objection || !dmac_numbers_valid(&param))
		return -EINVAL;
	dmac_forget();
	run = kzalloc_obj(*run, GFP_KERNEL);
	if (!run)
		return -ENOMEM;
	run->cfg = param;
	run->mode = mode;
	run->seed = param.seed ?: get_random_u32();
	init_completion(&run->ended);
	init_waitqueue_head(&run->wq);
	run->task = dmac_thread_start(dmac_runner, run, 0);
	if (IS_ERR(run->task)) {
		int err = PTR_ERR(run->task);

		kfree(run);
		return err;
	}
	dmac_current = run;
	return 0;
}

/* Returns when it is over: every wait of a run has an end. */
static void dmac_stop(void)
{
	if (!dmac_current)
		return;
	WRITE_ONCE(dmac_current->stop, true);
	wake_up_all(&dmac_current->wq);
	wait_for_completion(&dmac_current->ended);
}

static int dmac_run_set(const char *val, const struct kernel_param *kp)
{
	bool wanted;
	int err;

	err = kstrtobool(val, &wanted);
	if (err)
		return err;
	if (!dmac_loaded) {
		dmac_run_at_load = wanted;
		return 0;
	}
	if (wanted)
		return dmac_start();
	dmac_stop();
	return 0;
}

static int dmac_run_get(char *buffer, const struct kernel_param *kp)
{
	bool running = dmac_current && !completion_done(&dmac_current->ended);

	return sysfs_emit(buffer, "%d\n", running);
}

static const struct kernel_param_ops dmac_run_ops = {
	.set = dmac_run_set,
	.get = dmac_run_get,
};

module_param_cb(run, &dmac_run_ops, NULL, 0644);
MODULE_PARM_DESC(run, "1: run at load (default), or now; 0: do not, or stop");

static int dmac_result_get(char *buffer, const struct kernel_param *kp)
{
	bool running;
	int n;

	if (!dmac_current)
		return sysfs_emit(buffer, "null\n");
	running = !completion_done(&dmac_current->ended);
	n = dmac_result_format(dmac_current, running, buffer, PAGE_SIZE - 1);
	buffer[n] = '\n';
	return n + 1;
}

static const struct kernel_param_ops dmac_result_ops = {
	.get = dmac_result_get,
};

module_param_cb(result, &dmac_result_ops, NULL, 0444);
MODULE_PARM_DESC(result, "of the last run, or of this one so far");

static bool wait;
module_param(wait, bool, 0444);
MODULE_PARM_DESC(wait, "1: loading takes until the run at load is over (0)");

static int __init dmac_init(void)
{
	int err = 0;

	if (wait && dmac_run_at_load && !strcmp(param.mode, "hold")) {
		pr_err("mode=hold does not end by itself: no wait=1 with it\n");
		return -EINVAL;
	}
	kernel_param_lock(THIS_MODULE);
	if (dmac_run_at_load)
		err = dmac_start();
	dmac_loaded = !err;
	kernel_param_unlock(THIS_MODULE);
	if (!err && wait && dmac_run_at_load)
		wait_for_completion(&dmac_current->ended);
	return err;
}

static void __exit dmac_exit(void)
{
	/* The parameter files outlive this function. */
	kernel_param_lock(THIS_MODULE);
	dmac_loaded = false;
	dmac_stop();
	dmac_forget();
	kernel_param_unlock(THIS_MODULE);
}

module_init(dmac_init);
module_exit(dmac_exit);
MODULE_DESCRIPTION("Tombolo: loads a DMA engine provider and compares");
MODULE_LICENSE("Dual MIT/GPL");
