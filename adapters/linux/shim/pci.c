// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * tombolo_edma: the Synopsys DesignWare eDMA or HDMA behind a PCI function, driven by Tombolo's
 * portable driver.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/dma-mapping.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>

#include "edma.h"

static unsigned int vectors = 1;
module_param(vectors, uint, 0444);
MODULE_PARM_DESC(vectors, "interrupt vectors: 1 for all channels (default), or up to one a channel");

static char *irq = "auto";
module_param(irq, charp, 0444);
MODULE_PARM_DESC(irq, "auto (default), msi-x, msi or polling");

static unsigned int poll_us = 50;
module_param(poll_us, uint, 0444);
MODULE_PARM_DESC(poll_us, "without interrupts: microseconds from one look to the next (50)");

static unsigned int watch_ms = 50;
module_param(watch_ms, uint, 0444);
MODULE_PARM_DESC(watch_ms, "with interrupts: milliseconds from one look for a lost one to the next (50)");

static unsigned int selftest;
module_param(selftest, uint, 0444);
MODULE_PARM_DESC(selftest, "at probe, 1: try the memory and locks that Rust is given; 2: panic, for tests");

struct workqueue_struct *tombolo_release_wq;
/* What the parameter irq allows, as bits of enum tombolo_irq_mode. */
static int irq_types;

static void tombolo_edma_free(struct kref *ref)
{
	struct tombolo_edma *edma = container_of(ref, struct tombolo_edma, ref);

	pci_dev_put(edma->pdev);
	kfree(edma);
}

void tombolo_edma_put(struct tombolo_edma *edma)
{
	kref_put(&edma->ref, tombolo_edma_free);
}

/*
 * The core reads the channel once more after it has called device_release(), under its mutex: so
 * the memory goes only after somebody else has been in there.
 */
static void tombolo_release_work(struct work_struct *work)
{
	struct tombolo_edma *edma = container_of(work, struct tombolo_edma, release);

	tombolo_dmaengine_barrier();
	tombolo_edma_put(edma);
}

/* Whether the CPU's physical addresses are the bus addresses. */
static bool tombolo_bus_is_identity(struct pci_dev *pdev)
{
	struct pci_host_bridge *bridge = pci_find_host_bridge(pdev->bus);
	struct resource_entry *window;

	resource_list_for_each_entry(window, &bridge->windows) {
		if (resource_type(window->res) == IORESOURCE_MEM && window->offset)
			return false;
	}
	return true;
}

static int tombolo_map(struct tombolo_edma *edma)
{
	struct tombolo_engine *engine = &edma->engine;
	struct pci_dev *pdev = edma->pdev;
	int bars = BIT(engine->register_bar), err;

	if (engine->flags & TOMBOLO_ENGINE_HAS_LISTS) {
		bars |= BIT(engine->memory_bar);
		if (pci_resource_len(pdev, engine->memory_bar) < engine->memory_size) {
			pci_err(pdev, "BAR %u has %llu bytes, lists and data need %u\n",
				engine->memory_bar,
				(unsigned long long)pci_resource_len(pdev, engine->memory_bar),
				engine->memory_size);
			return -ENODEV;
		}
	}
	err = pci_request_selected_regions(pdev, bars, TOMBOLO_NAME);
	if (err)
		return err;
	err = -ENOMEM;
	edma->registers = pci_iomap(pdev, engine->register_bar, 0);
	if (!edma->registers)
		goto release;
	if (!(engine->flags & TOMBOLO_ENGINE_HAS_LISTS))
		return 0;
	if (engine->memory_bar == engine->register_bar)
		edma->memory = edma->registers;
	else
		edma->memory = pci_iomap(pdev, engine->memory_bar, 0);
	if (edma->memory)
		return 0;
	pci_iounmap(pdev, edma->registers);
release:
	pci_release_selected_regions(pdev, bars);
	return err;
}

static void tombolo_unmap(struct tombolo_edma *edma)
{
	struct tombolo_engine *engine = &edma->engine;
	int bars = BIT(engine->register_bar);

	if (edma->memory && edma->memory != edma->registers)
		pci_iounmap(edma->pdev, edma->memory);
	if (edma->memory)
		bars |= BIT(engine->memory_bar);
	pci_iounmap(edma->pdev, edma->registers);
	pci_release_selected_regions(edma->pdev, bars);
}

static void tombolo_place_channel(struct tombolo_edma *edma, struct tombolo_chan *chan)
{
	struct tombolo_places places;

	/* All zeros without a list, as with the stock driver. */
	chan->chan.private = &chan->data;
	if (tombolo_edma_places(&edma->engine, chan->kind, chan->index, &places))
		return;
	chan->list.paddr = edma->engine.memory_base + places.list_offset;
	chan->list.vaddr.io = edma->memory + places.list_offset;
	chan->list.sz = places.list_size;
	chan->data.paddr = edma->engine.memory_base + places.data_offset;
	chan->data.vaddr.io = edma->memory + places.data_offset;
	chan->data.sz = places.data_size;
}

static void tombolo_init_channels(struct tombolo_edma *edma)
{
	unsigned int i, writes = edma->engine.write_channels;
	struct tombolo_chan *chan;

	INIT_LIST_HEAD(&edma->dma.channels);
	for (i = 0; i < edma->count; i++) {
		chan = &edma->channels[i];
		chan->kind = i >= writes;
		chan->index = chan->kind ? i - writes : i;
		tombolo_place_channel(edma, chan);
		tombolo_chan_init(edma, chan);
	}
}

static int tombolo_open(struct tombolo_edma *edma)
{
	struct pci_dev *pdev = edma->pdev;
	struct tombolo_open_args args = {
		.registers = (__force void *)edma->registers,
		.registers_size = pci_resource_len(pdev, edma->engine.register_bar),
		.lock = &edma->register_lock,
		.vectors = &edma->vectors,
		.format = edma->engine.format,
		.write_channels = edma->engine.write_channels,
		.read_channels = edma->engine.read_channels,
		.function = PCI_FUNC(pdev->devfn),
		.device = &pdev->dev,
	};

	return tombolo_edma_open(&args, &edma->handles);
}

/* Interrupts are freed, channels are closed, and nobody can open one any more. */
static void tombolo_close(struct tombolo_edma *edma)
{
	unsigned long flags;
	void *control;

	raw_spin_lock_irqsave(&edma->control_lock, flags);
	control = edma->handles.control;
	edma->handles.control = NULL;
	raw_spin_unlock_irqrestore(&edma->control_lock, flags);
	tombolo_edma_close(control);
	edma->handles.shared = NULL;
}

static struct tombolo_edma *tombolo_alloc(struct pci_dev *pdev, const struct tombolo_engine *engine)
{
	unsigned int count = engine->write_channels + engine->read_channels;
	struct tombolo_edma *edma = kzalloc(struct_size(edma, channels, count), GFP_KERNEL);

	if (!edma)
		return NULL;
	edma->count = count;
	edma->pdev = pci_dev_get(pdev);
	edma->engine = *engine;
	edma->bus_is_identity = tombolo_bus_is_identity(pdev);
	raw_spin_lock_init(&edma->register_lock);
	raw_spin_lock_init(&edma->control_lock);
	INIT_WORK(&edma->release, tombolo_release_work);
	kref_init(&edma->ref);
	tombolo_watch_init(edma);
	if (!(engine->flags & TOMBOLO_ENGINE_BASE_KNOWN))
		edma->engine.memory_base = pci_bus_address(pdev, engine->memory_bar);
	return edma;
}

static int tombolo_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct tombolo_engine engine;
	struct tombolo_edma *edma;
	int err;

	err = pci_enable_device(pdev);
	if (err)
		return err;
	err = tombolo_edma_find(pdev, pdev->vendor, pdev->device, &engine);
	if (err)
		goto disable;
	err = -ENOMEM;
	edma = tombolo_alloc(pdev, &engine);
	if (!edma)
		goto disable;
	err = tombolo_map(edma);
	if (err)
		goto free;
	pci_set_master(pdev);
	/* Clients' memory may be anywhere, our own is below 4 GiB: see ../src/irq.rs. */
	err = dma_set_mask(&pdev->dev, DMA_BIT_MASK(64)) ?:
	      dma_set_coherent_mask(&pdev->dev, DMA_BIT_MASK(32));
	if (err)
		goto unmap;
	if (selftest) {
		err = tombolo_selftest(&pdev->dev, &edma->register_lock, selftest);
		if (err)
			goto unmap;
	}
	tombolo_init_channels(edma);
	err = tombolo_open(edma);
	if (err)
		goto unmap;
	err = tombolo_irq_init(edma, irq_types, vectors);
	if (err)
		goto close;
	if (edma->requested)
		tombolo_irq_connect(edma);
	edma->watch_interval = ns_to_ktime(edma->polled ?
					   (u64)max(poll_us, 1U) * NSEC_PER_USEC :
					   (u64)max(watch_ms, 1U) * NSEC_PER_MSEC);
	pci_set_drvdata(pdev, edma);
	/* The core's reference; device_release() gives it back. */
	kref_get(&edma->ref);
	err = tombolo_dmaengine_init(edma);
	if (err)
		goto irq;
	pci_save_state(pdev);
	tombolo_debugfs_add(edma);
	pci_info(pdev, "%u write and %u read channels, %s\n", engine.write_channels,
		 engine.read_channels, edma->polled ? "polling" :
		 edma->vectors.mode == TOMBOLO_IRQ_MSIX ? "MSI-X" : "MSI");
	return 0;

irq:
	tombolo_edma_put(edma);
	tombolo_irq_free(edma);
close:
	tombolo_close(edma);
unmap:
	pci_clear_master(pdev);
	tombolo_unmap(edma);
free:
	tombolo_edma_put(edma);
disable:
	pci_disable_device(pdev);
	return err;
}

static void tombolo_remove(struct pci_dev *pdev)
{
	struct tombolo_edma *edma = pci_get_drvdata(pdev);

	tombolo_debugfs_remove(edma);
	tombolo_dmaengine_stop(edma);
	tombolo_irq_free(edma);
	tombolo_watch_stop(edma);
	/* Somebody may be about to open a channel, and finds out that it is too late. */
	tombolo_dmaengine_barrier();
	tombolo_close(edma);
	/* Clients are told before the core forgets their channels. */
	tombolo_dmaengine_flush(edma);
	dma_async_device_unregister(&edma->dma);
	tombolo_unmap(edma);
	pci_disable_device(pdev);
	tombolo_edma_put(edma);
}

static void tombolo_shutdown(struct pci_dev *pdev)
{
	tombolo_dmaengine_lost(pci_get_drvdata(pdev));
}

static const struct pci_device_id tombolo_ids[] = {
	{ PCI_DEVICE(PCI_VENDOR_ID_SYNOPSYS, 0xedda) },
	{ PCI_DEVICE(PCI_VENDOR_ID_XILINX, 0xb054) },
	{ PCI_DEVICE(PCI_VENDOR_ID_XILINX, 0xb00f) },
	{ }
};
MODULE_DEVICE_TABLE(pci, tombolo_ids);

static struct pci_driver tombolo_driver = {
	.name = TOMBOLO_NAME,
	.id_table = tombolo_ids,
	.probe = tombolo_probe,
	.remove = tombolo_remove,
	.shutdown = tombolo_shutdown,
	.err_handler = &tombolo_error_handlers,
	.driver.pm = pm_sleep_ptr(&tombolo_pm_ops),
};

static int __init tombolo_module_init(void)
{
	int err;

	if (tombolo_init() != TOMBOLO_ABI_VERSION) {
		pr_err("the Rust object is of another version: run make rust again\n");
		return -EINVAL;
	}
	irq_types = tombolo_parse_irq(irq, strlen(irq));
	if (irq_types < 0)
		return irq_types;
	tombolo_release_wq = alloc_workqueue(TOMBOLO_NAME, WQ_UNBOUND, 0);
	if (!tombolo_release_wq)
		return -ENOMEM;
	tombolo_debugfs_init();
	err = pci_register_driver(&tombolo_driver);
	if (err) {
		tombolo_debugfs_exit();
		destroy_workqueue(tombolo_release_wq);
	}
	return err;
}
module_init(tombolo_module_init);

static void __exit tombolo_module_exit(void)
{
	pci_unregister_driver(&tombolo_driver);
	tombolo_debugfs_exit();
	/* Waits for what device_release() has left. */
	destroy_workqueue(tombolo_release_wq);
}
module_exit(tombolo_module_exit);

MODULE_DESCRIPTION("Tombolo: Synopsys DesignWare eDMA and HDMA behind PCI");
MODULE_AUTHOR("The Tombolo developers");
MODULE_LICENSE("Dual MIT/GPL");
