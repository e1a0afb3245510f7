// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * What every Rust driver needs: memory, locks, config space, a log, and a way to die.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bug.h>
#include <linux/dev_printk.h>
#include <linux/kernel.h>
#include <linux/log2.h>
#include <linux/pci.h>
#include <linux/printk.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "shim.h"

unsigned long tombolo_shim_lock(void *lock)
	__acquires(lock)
{
	unsigned long flags;

	raw_spin_lock_irqsave((raw_spinlock_t *)lock, flags);
	return flags;
}

void tombolo_shim_unlock(void *lock, unsigned long flags)
	__releases(lock)
{
	raw_spin_unlock_irqrestore((raw_spinlock_t *)lock, flags);
}

void *tombolo_shim_alloc(size_t size, size_t align)
{
	might_sleep();
	/* Sizes that are powers of two are aligned to themselves. */
	if (align > ARCH_KMALLOC_MINALIGN)
		size = roundup_pow_of_two(max(size, align));
	return kmalloc(size, GFP_KERNEL);
}

void tombolo_shim_free(void *memory)
{
	kfree(memory);
}

u32 tombolo_shim_config_read(void *function, u16 offset, u32 width)
{
	u32 value = ~0U;
	u16 word;
	u8 byte;

	switch (width) {
	case 1:
		return pci_read_config_byte(function, offset, &byte) ? 0xff : byte;
	case 2:
		return pci_read_config_word(function, offset, &word) ? 0xffff : word;
	default:
		return pci_read_config_dword(function, offset, &value) ? ~0U : value;
	}
}

void tombolo_shim_config_write(void *function, u16 offset, u32 width, u32 value)
{
	switch (width) {
	case 1:
		pci_write_config_byte(function, offset, value);
		break;
	case 2:
		pci_write_config_word(function, offset, value);
		break;
	default:
		pci_write_config_dword(function, offset, value);
		break;
	}
}

void tombolo_shim_log(const void *device, u32 level, const char *text, size_t length)
{
	const struct device *dev = device;
	int len = min_t(size_t, length, INT_MAX);

	switch (level) {
	case 3:
		if (dev)
			dev_err(dev, "%.*s\n", len, text);
		else
			pr_err("%.*s\n", len, text);
		break;
	case 4:
		if (dev)
			dev_warn(dev, "%.*s\n", len, text);
		else
			pr_warn("%.*s\n", len, text);
		break;
	case 6:
		if (dev)
			dev_info(dev, "%.*s\n", len, text);
		else
			pr_info("%.*s\n", len, text);
		break;
	default:
		if (dev)
			dev_dbg(dev, "%.*s\n", len, text);
		else
			pr_debug("%.*s\n", len, text);
		break;
	}
}

void __noreturn tombolo_shim_panic(const char *text, size_t length)
{
	pr_emerg("%.*s\n", (int)min_t(size_t, length, INT_MAX), text);
	BUG();
}
