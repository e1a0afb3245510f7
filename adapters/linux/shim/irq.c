// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Interrupts. The engine writes its messages itself, so it is told of every new one: when an
 * interrupt moves to another CPU, the kernel calls us with the message that it has just written.
 */
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/msi.h>

#include "edma.h"

static irqreturn_t tombolo_irq(int irq, void *data)
{
	struct tombolo_vector *vector = data;
	struct tombolo_edma *edma = vector->edma;
	struct tombolo_report report;
	unsigned long long bits;
	unsigned int i, writes = edma->engine.write_channels;

	vector->interrupts++;
	if (!tombolo_edma_irq(edma->handles.shared, &report)) {
		/* Two events can share one look, so the second message finds nothing. */
		vector->spurious++;
		return IRQ_HANDLED;
	}
	for (bits = report.write_channels; bits; bits &= bits - 1) {
		i = __builtin_ctzll(bits);
		tasklet_schedule(&edma->channels[i].bottom_half);
	}
	for (bits = report.read_channels; bits; bits &= bits - 1) {
		i = __builtin_ctzll(bits);
		tasklet_schedule(&edma->channels[writes + i].bottom_half);
	}
	return IRQ_HANDLED;
}

/*
 * MSI has one descriptor for all vectors; the number of the vector is in the low bits of the data.
 */
static void tombolo_set_message(struct tombolo_edma *edma, unsigned int index,
				const struct msi_msg *msg, bool msix)
{
	u64 address = (u64)msg->address_hi << 32 | msg->address_lo;
	unsigned int i, first = msix ? index : 0, end = msix ? index + 1 : edma->vectors.count;
	struct tombolo_message *message;
	u32 data;

	lockdep_assert_held(&edma->control_lock);
	for (i = first; i < end; i++) {
		message = &edma->vectors.messages[i];
		data = msg->data + (msix ? 0 : i);
		if (message->address == address && message->data == data)
			continue;
		message->address = address;
		message->data = data;
		edma->vectors.epoch++;
	}
}

/*
 * Called under the interrupt's raw desc->lock, interrupts off, possibly in the middle of the
 * interrupt itself, and twice in a row if both CPU and vector change. When this returns the engine
 * sends nothing to the old place any more; what it is to send is settled a moment later.
 */
static void tombolo_write_msi_msg(struct msi_desc *desc, void *data)
{
	struct tombolo_vector *vector = data;
	struct tombolo_edma *edma = vector->edma;
	unsigned long flags;

	/* All zeros when the vector is taken away: an engine that is at rest by then. */
	if (!desc->msg.address_lo && !desc->msg.address_hi)
		return;
	raw_spin_lock_irqsave(&edma->control_lock, flags);
	tombolo_set_message(edma, vector->index, &desc->msg,
			    edma->vectors.mode == TOMBOLO_IRQ_MSIX);
	if (edma->handles.control && !edma->polled && !edma->away &&
	    tombolo_edma_hold(edma->handles.control))
		tasklet_schedule(&edma->new_message);
	raw_spin_unlock_irqrestore(&edma->control_lock, flags);
}

/* Gives the engine what the kernel has settled on, and looks for what was not told meanwhile. */
static void tombolo_new_message(struct tasklet_struct *tasklet)
{
	struct tombolo_edma *edma = container_of(tasklet, struct tombolo_edma, new_message);
	unsigned long flags;
	int err = 0;

	raw_spin_lock_irqsave(&edma->control_lock, flags);
	if (edma->handles.control && !edma->away) {
		err = tombolo_edma_refresh(edma->handles.control);
		edma->messages_followed++;
	}
	raw_spin_unlock_irqrestore(&edma->control_lock, flags);
	if (err < 0)
		pci_err(edma->pdev, "the engine cannot send its new messages: %d\n", err);
	tombolo_dmaengine_kick(edma);
}

static void tombolo_hook(struct tombolo_vector *vector, bool hook)
{
	struct msi_desc *desc = irq_get_msi_desc(vector->irq);

	if (!desc || (vector->edma->vectors.mode == TOMBOLO_IRQ_MSI && vector->index))
		return;
	desc->write_msi_msg_data = hook ? vector : NULL;
	desc->write_msi_msg = hook ? tombolo_write_msi_msg : NULL;
}

static int tombolo_request(struct tombolo_edma *edma, unsigned int index)
{
	struct tombolo_vector *vector = &edma->vector[index];
	struct msi_msg msg;
	unsigned long flags;
	int err;

	vector->edma = edma;
	vector->index = index;
	vector->irq = pci_irq_vector(edma->pdev, index);
	snprintf(vector->name, sizeof(vector->name), TOMBOLO_NAME ":%s-%u", pci_name(edma->pdev),
		 index);
	/* Requesting activates the vector, which is when it gets its message. */
	tombolo_hook(vector, true);
	err = request_irq(vector->irq, tombolo_irq, 0, vector->name, vector);
	if (err) {
		tombolo_hook(vector, false);
		return err;
	}
	edma->requested = index + 1;
	get_cached_msi_msg(vector->irq, &msg);
	raw_spin_lock_irqsave(&edma->control_lock, flags);
	if (edma->vectors.mode == TOMBOLO_IRQ_MSIX || !index)
		tombolo_set_message(edma, index, &msg, edma->vectors.mode == TOMBOLO_IRQ_MSIX);
	raw_spin_unlock_irqrestore(&edma->control_lock, flags);
	return 0;
}

int tombolo_irq_init(struct tombolo_edma *edma, unsigned int types, unsigned int vectors)
{
	struct pci_dev *pdev = edma->pdev;
	unsigned int flags = 0, i;
	int count, err;

	edma->polled = true;
	tasklet_setup(&edma->new_message, tombolo_new_message);
	if (types & BIT(TOMBOLO_IRQ_MSI))
		flags |= PCI_IRQ_MSI;
	if (types & BIT(TOMBOLO_IRQ_MSIX))
		flags |= PCI_IRQ_MSIX;
	if (!flags)
		return 0;
	vectors = clamp(vectors, 1, min(TOMBOLO_MAX_VECTORS, edma->count));
	count = pci_alloc_irq_vectors(pdev, 1, vectors, flags);
	if (count < 0) {
		pci_warn(pdev, "no interrupt vectors (%d): polling\n", count);
		return 0;
	}
	edma->vectors.mode = pdev->msix_enabled ? TOMBOLO_IRQ_MSIX : TOMBOLO_IRQ_MSI;
	edma->vectors.count = count;
	for (i = 0; i < count; i++) {
		err = tombolo_request(edma, i);
		if (err) {
			tombolo_irq_free(edma);
			return err;
		}
	}
	return 0;
}

/* Gives the engine its messages, before any channel is opened. */
void tombolo_irq_connect(struct tombolo_edma *edma)
{
	unsigned long flags;
	int interrupts;

	raw_spin_lock_irqsave(&edma->control_lock, flags);
	interrupts = tombolo_edma_connect(&edma->pdev->dev, edma->handles.control);
	edma->polled = interrupts != 1;
	raw_spin_unlock_irqrestore(&edma->control_lock, flags);
}

void tombolo_irq_disable(struct tombolo_edma *edma)
{
	unsigned int i;

	for (i = 0; i < edma->requested; i++)
		disable_irq(edma->vector[i].irq);
}

void tombolo_irq_enable(struct tombolo_edma *edma)
{
	unsigned int i;

	for (i = 0; i < edma->requested; i++)
		enable_irq(edma->vector[i].irq);
}

void tombolo_irq_free(struct tombolo_edma *edma)
{
	unsigned int i;

	for (i = 0; i < edma->requested; i++)
		free_irq(edma->vector[i].irq, &edma->vector[i]);
	for (i = 0; i < edma->requested; i++)
		tombolo_hook(&edma->vector[i], false);
	edma->requested = 0;
	tasklet_kill(&edma->new_message);
	if (edma->vectors.mode != TOMBOLO_IRQ_POLLING)
		pci_free_irq_vectors(edma->pdev);
	edma->vectors.mode = TOMBOLO_IRQ_POLLING;
	edma->vectors.count = 0;
}
