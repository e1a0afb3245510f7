// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * DMA memory for Rust.
 */
#include <linux/dma-mapping.h>

#include "shim.h"

static_assert(DMA_BIDIRECTIONAL == 0);
static_assert(DMA_TO_DEVICE == 1);
static_assert(DMA_FROM_DEVICE == 2);

void *tombolo_shim_dma_alloc(void *device, size_t size, u64 *address)
{
	dma_addr_t dma = 0;
	void *memory = dma_alloc_coherent(device, size, &dma, GFP_KERNEL);

	*address = dma;
	return memory;
}

void tombolo_shim_dma_free(void *device, size_t size, void *memory, u64 address)
{
	dma_free_coherent(device, size, memory, address);
}

int tombolo_shim_dma_map(void *device, void *memory, size_t size, u32 direction, u64 *address)
{
	dma_addr_t dma = dma_map_single(device, memory, size, direction);

	if (dma_mapping_error(device, dma))
		return -ENOMEM;
	*address = dma;
	return 0;
}

void tombolo_shim_dma_unmap(void *device, u64 address, size_t size, u32 direction)
{
	dma_unmap_single(device, address, size, direction);
}

void tombolo_shim_dma_sync(void *device, u64 address, size_t size, u32 direction, int for_device)
{
	if (for_device)
		dma_sync_single_for_device(device, address, size, direction);
	else
		dma_sync_single_for_cpu(device, address, size, direction);
}
