// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Times without the device: suspend, reset, errors of the bus.
 */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/pci.h>
#include <linux/pm.h>

#include "edma.h"

static void tombolo_hold(struct tombolo_chan *chan, bool hold)
{
	unsigned long flags;

	spin_lock_irqsave(&chan->lock, flags);
	if (hold && chan->rust && !tombolo_edma_chan_is_paused(chan->rust)) {
		chan->held = true;
		tombolo_edma_chan_pause(chan->rust);
	} else if (!hold && chan->held) {
		chan->held = false;
		if (chan->rust)
			tombolo_edma_chan_resume(chan->rust);
	}
	spin_unlock_irqrestore(&chan->lock, flags);
}

/*
 * The device goes for a time: suspend, reset. What the engine has is finished first; with force it
 * ends with an error when the device comes back. May sleep.
 */
static int tombolo_away(struct tombolo_edma *edma, bool force)
{
	unsigned long flags, end = jiffies + msecs_to_jiffies(500);
	unsigned int i;
	bool late;
	int err;

	if (edma->away || edma->dead)
		return 0;
	for (i = 0; i < edma->count; i++)
		tombolo_hold(&edma->channels[i], true);
	for (;;) {
		late = time_after(jiffies, end);
		/*
		 * What it may still move reaches no memory: a client that terminates now may free
		 * it.
		 */
		if (force && late)
			pci_clear_master(edma->pdev);
		raw_spin_lock_irqsave(&edma->control_lock, flags);
		err = tombolo_edma_suspend(edma->handles.control);
		edma->cut_off = err && force && late;
		edma->away = !err || edma->cut_off;
		raw_spin_unlock_irqrestore(&edma->control_lock, flags);
		if (edma->away || late)
			break;
		usleep_range(500, 1000);
	}
	if (!edma->away) {
		for (i = 0; i < edma->count; i++)
			tombolo_hold(&edma->channels[i], false);
		tombolo_watch(edma);
		return err;
	}
	/* Who looked before has finished when the lock was ours. */
	for (i = 0; i < edma->count; i++) {
		spin_lock_irqsave(&edma->channels[i].lock, flags);
		spin_unlock_irqrestore(&edma->channels[i].lock, flags);
	}
	tombolo_irq_disable(edma);
	tombolo_watch_stop(edma);
	return 0;
}

/* What clients asked for while the device was away. */
static void tombolo_catch_up(struct tombolo_chan *chan)
{
	unsigned long flags;

	spin_lock_irqsave(&chan->lock, flags);
	if (chan->rust && chan->terminate_later)
		tombolo_edma_chan_terminate(chan->rust);
	chan->terminate_later = false;
	spin_unlock_irqrestore(&chan->lock, flags);
	tombolo_hold(chan, false);
	spin_lock_irqsave(&chan->lock, flags);
	if (chan->rust && chan->issue_later)
		tombolo_edma_chan_issue(chan->rust);
	chan->issue_later = false;
	spin_unlock_irqrestore(&chan->lock, flags);
}

/* It is back, without its memory. May sleep. */
static void tombolo_back(struct tombolo_edma *edma)
{
	unsigned long flags;
	unsigned int i;
	int err;

	if (!edma->away || edma->dead)
		return;
	pci_set_master(edma->pdev);
	raw_spin_lock_irqsave(&edma->control_lock, flags);
	err = tombolo_edma_after_reset(edma->handles.control);
	edma->away = err != 0;
	if (!err)
		edma->cut_off = false;
	raw_spin_unlock_irqrestore(&edma->control_lock, flags);
	if (err) {
		pci_err(edma->pdev, "the engine did not come back: %d; unbind and bind the driver\n",
			err);
		tombolo_dmaengine_lost(edma);
		return;
	}
	tombolo_irq_enable(edma);
	for (i = 0; i < edma->count; i++)
		tombolo_catch_up(&edma->channels[i]);
	tombolo_dmaengine_kick(edma);
	tombolo_watch(edma);
}

static int tombolo_pm_suspend(struct device *dev)
{
	return tombolo_away(dev_get_drvdata(dev), false);
}

static int tombolo_pm_resume(struct device *dev)
{
	tombolo_back(dev_get_drvdata(dev));
	return 0;
}

DEFINE_SIMPLE_DEV_PM_OPS(tombolo_pm_ops, tombolo_pm_suspend, tombolo_pm_resume);

static void tombolo_reset_prepare(struct pci_dev *pdev)
{
	tombolo_away(pci_get_drvdata(pdev), true);
}

static void tombolo_reset_done(struct pci_dev *pdev)
{
	tombolo_back(pci_get_drvdata(pdev));
}

static pci_ers_result_t tombolo_error_detected(struct pci_dev *pdev, pci_channel_state_t state)
{
	if (state == pci_channel_io_perm_failure) {
		tombolo_dmaengine_lost(pci_get_drvdata(pdev));
		return PCI_ERS_RESULT_DISCONNECT;
	}
	tombolo_away(pci_get_drvdata(pdev), true);
	return state == pci_channel_io_frozen ? PCI_ERS_RESULT_NEED_RESET :
						PCI_ERS_RESULT_CAN_RECOVER;
}

static pci_ers_result_t tombolo_slot_reset(struct pci_dev *pdev)
{
	pci_restore_state(pdev);
	pci_save_state(pdev);
	return PCI_ERS_RESULT_RECOVERED;
}

static void tombolo_error_resume(struct pci_dev *pdev)
{
	tombolo_back(pci_get_drvdata(pdev));
}

const struct pci_error_handlers tombolo_error_handlers = {
	.error_detected = tombolo_error_detected,
	.slot_reset = tombolo_slot_reset,
	.resume = tombolo_error_resume,
	.reset_prepare = tombolo_reset_prepare,
	.reset_done = tombolo_reset_done,
};
