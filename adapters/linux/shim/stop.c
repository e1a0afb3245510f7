// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The end of a device that clients still hold channels of: every transfer ends once, with an error.
 */
#include "channel.h"

/* Reports what has finished, notes how far the rest has come, and drops it. */
static void tombolo_chan_abort(struct tombolo_chan *chan)
{
	struct tombolo_status status;
	struct tombolo_desc *desc;

	if (!chan->rust)
		return;
	tombolo_collect_finished(chan);
	for (desc = chan->pending.head; desc; desc = desc->next) {
		tombolo_edma_chan_status(chan->rust, desc->cookie, &status);
		desc->result.residue = status.residue;
	}
	tombolo_edma_chan_terminate(chan->rust);
}

/*
 * The device goes: the engine stops, and all that is pending ends with an error, which
 * tombolo_dmaengine_flush() tells once nothing can move any more. May sleep.
 */
void tombolo_dmaengine_stop(struct tombolo_edma *edma)
{
	struct tombolo_chan *chan;
	unsigned long flags;
	unsigned int i;

	raw_spin_lock_irqsave(&edma->control_lock, flags);
	edma->dead = true;
	raw_spin_unlock_irqrestore(&edma->control_lock, flags);
	for (i = 0; i < edma->count; i++) {
		chan = &edma->channels[i];
		spin_lock_irqsave(&chan->lock, flags);
		tombolo_chan_abort(chan);
		spin_unlock_irqrestore(&chan->lock, flags);
	}
	for (i = 0; i < edma->count; i++)
		tombolo_wait(&edma->channels[i], tombolo_edma_chan_is_quiescent, 1000);
	/* Whatever the engine did, it reaches no memory from here on. */
	pci_clear_master(edma->pdev);
	for (i = 0; i < edma->count; i++) {
		chan = &edma->channels[i];
		tombolo_chan_detach(chan);
		spin_lock_irqsave(&chan->lock, flags);
		while (chan->pending.head)
			tombolo_finish(chan, DMA_TRANS_ABORTED, chan->pending.head->result.residue);
		spin_unlock_irqrestore(&chan->lock, flags);
	}
}

/* Returns when every client was told. May sleep. */
void tombolo_dmaengine_flush(struct tombolo_edma *edma)
{
	unsigned int i;

	tombolo_dmaengine_kick(edma);
	for (i = 0; i < edma->count; i++)
		tasklet_kill(&edma->channels[i].bottom_half);
}

/*
 * The device will not come back, or the machine goes down: everything ends with an error, and
 * remove() finds it so. May sleep.
 */
void tombolo_dmaengine_lost(struct tombolo_edma *edma)
{
	tombolo_dmaengine_stop(edma);
	tombolo_dmaengine_flush(edma);
}
