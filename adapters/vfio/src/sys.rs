//! VFIO's system calls. Everything that is passed to the kernel by pointer goes through here.
//!
//! Numbers and structures: `include/uapi/linux/vfio.h` (crate vfio-bindings has the structures).

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use vfio_bindings::bindings::vfio::{
    VFIO_BASE, VFIO_IRQ_SET_DATA_EVENTFD, VFIO_TYPE, vfio_device_info, vfio_group_status,
    vfio_iommu_type1_dma_map, vfio_iommu_type1_info, vfio_irq_info, vfio_region_info,
};

/// `_IO(VFIO_TYPE, VFIO_BASE + n)`: no size and no direction in the number.
const fn number(n: u32) -> u32 {
    (VFIO_TYPE as u32) << 8 | (VFIO_BASE + n)
}

const GET_API_VERSION: u32 = number(0);
const CHECK_EXTENSION: u32 = number(1);
const SET_IOMMU: u32 = number(2);
const GROUP_GET_STATUS: u32 = number(3);
const GROUP_SET_CONTAINER: u32 = number(4);
const GROUP_GET_DEVICE_FD: u32 = number(6);
const DEVICE_GET_INFO: u32 = number(7);
const DEVICE_GET_REGION_INFO: u32 = number(8);
const DEVICE_GET_IRQ_INFO: u32 = number(9);
const DEVICE_SET_IRQS: u32 = number(10);
const DEVICE_RESET: u32 = number(11);
const IOMMU_GET_INFO: u32 = number(12);
const IOMMU_MAP_DMA: u32 = number(13);
const IOMMU_UNMAP_DMA: u32 = number(14);

/// An answer with capabilities is at most so long; the kernel's are a few hundred bytes.
const INFO_MAX: usize = 64 << 10;

type Fd<'a> = BorrowedFd<'a>;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A call with a number, or nothing, as its argument.
fn call(fd: Fd<'_>, request: u32, argument: libc::c_ulong) -> io::Result<libc::c_int> {
    // SAFETY: the requests that come here take no pointer.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request.into(), argument) })
}

/// A call with a pointer.
///
/// # Safety
/// `request` reads and writes at most what `argument` points to, which is valid for it.
unsafe fn call_with<T>(fd: Fd<'_>, request: u32, argument: *mut T) -> io::Result<libc::c_int> {
    // SAFETY: the caller's promise.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request.into(), argument) })
}

fn argsz<T>() -> u32 {
    size_of::<T>() as u32
}

pub(crate) fn api_version(container: Fd<'_>) -> io::Result<u32> {
    Ok(call(container, GET_API_VERSION, 0)? as u32)
}

pub(crate) fn has_extension(container: Fd<'_>, extension: u32) -> io::Result<bool> {
    Ok(call(container, CHECK_EXTENSION, extension.into())? > 0)
}

pub(crate) fn set_iommu(container: Fd<'_>, kind: u32) -> io::Result<()> {
    call(container, SET_IOMMU, kind.into()).map(drop)
}

pub(crate) fn group_flags(group: Fd<'_>) -> io::Result<u32> {
    let mut status = vfio_group_status { argsz: argsz::<vfio_group_status>(), ..Default::default() };
    // SAFETY: the kernel writes a `vfio_group_status`.
    unsafe { call_with(group, GROUP_GET_STATUS, &mut status)? };
    Ok(status.flags)
}

pub(crate) fn set_container(group: Fd<'_>, container: Fd<'_>) -> io::Result<()> {
    let mut number: RawFd = container.as_raw_fd();
    // SAFETY: the kernel reads one file descriptor.
    unsafe { call_with(group, GROUP_SET_CONTAINER, &mut number) }.map(drop)
}

pub(crate) fn device_fd(group: Fd<'_>, name: &str) -> io::Result<OwnedFd> {
    let name = CString::new(name)?;
    // SAFETY: the kernel reads a string that ends with 0.
    let fd = unsafe { call_with(group, GROUP_GET_DEVICE_FD, name.as_ptr().cast_mut()) }?;
    // SAFETY: the kernel made this descriptor for us just now.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub(crate) fn device_flags(device: Fd<'_>) -> io::Result<u32> {
    let mut info = vfio_device_info { argsz: argsz::<vfio_device_info>(), ..Default::default() };
    // SAFETY: the kernel writes at most `argsz` bytes, a `vfio_device_info`.
    unsafe { call_with(device, DEVICE_GET_INFO, &mut info)? };
    Ok(info.flags)
}

pub(crate) fn irq_info(device: Fd<'_>, index: u32) -> io::Result<vfio_irq_info> {
    let mut info = vfio_irq_info { argsz: argsz::<vfio_irq_info>(), index, ..Default::default() };
    // SAFETY: the kernel writes at most `argsz` bytes, a `vfio_irq_info`.
    unsafe { call_with(device, DEVICE_GET_IRQ_INFO, &mut info)? };
    Ok(info)
}

pub(crate) fn reset(device: Fd<'_>) -> io::Result<()> {
    call(device, DEVICE_RESET, 0).map(drop)
}

/// An answer with its capabilities: the structure, and all bytes of the answer.
pub(crate) struct Info<T> {
    /// The structure at its start.
    pub head: T,
    bytes: Vec<u8>,
}

impl<T> Info<T> {
    /// All of it, the structure first; empty if there are no capabilities.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Structures that begin with `argsz` and consist of integers.
trait Answer: Copy {
    fn argsz(&mut self) -> &mut u32;
}

impl Answer for vfio_region_info {
    fn argsz(&mut self) -> &mut u32 {
        &mut self.argsz
    }
}

impl Answer for vfio_iommu_type1_info {
    fn argsz(&mut self) -> &mut u32 {
        &mut self.argsz
    }
}

pub(crate) fn region_info(device: Fd<'_>, index: u32) -> io::Result<Info<vfio_region_info>> {
    info(device, DEVICE_GET_REGION_INFO, vfio_region_info { index, ..Default::default() })
}

pub(crate) fn iommu_info(container: Fd<'_>) -> io::Result<Info<vfio_iommu_type1_info>> {
    info(container, IOMMU_GET_INFO, vfio_iommu_type1_info::default())
}

fn info<T: Answer>(fd: Fd<'_>, request: u32, question: T) -> io::Result<Info<T>> {
    let mut head = question;
    *head.argsz() = argsz::<T>();
    // SAFETY: the kernel writes at most `argsz` bytes, which is the size of `T`.
    unsafe { call_with(fd, request, &mut head)? };
    let wanted = *head.argsz() as usize;
    if wanted <= size_of::<T>() {
        return Ok(Info { head, bytes: Vec::new() });
    }
    if wanted > INFO_MAX {
        return Err(io::Error::other(format!(
            "the kernel's answer has {wanted} bytes, {INFO_MAX} at most are read"
        )));
    }
    // Words of 8, so that the structure is aligned.
    let mut words = vec![0u64; wanted.div_ceil(8)];
    let mut question = question;
    *question.argsz() = wanted as u32;
    let at = words.as_mut_ptr().cast::<T>();
    // SAFETY: `wanted` exceeds the size of `T`, and 8 is the largest alignment of these structures.
    unsafe { at.write(question) };
    // SAFETY: the kernel writes at most `argsz` bytes, and there are as many.
    unsafe { call_with(fd, request, at)? };
    // SAFETY: written above and by the kernel; integers only.
    let head = unsafe { at.read() };
    let bytes = words.iter().flat_map(|word| word.to_ne_bytes()).take(wanted).collect();
    Ok(Info { head, bytes })
}

/// Lets the kernel signal `fds`, one a vector from 0 on. A number above 0 means that nothing was done,
/// because the machine has no more than so many vectors for the function.
pub(crate) fn set_irqs(device: Fd<'_>, index: u32, action: u32, fds: &[Fd<'_>]) -> io::Result<usize> {
    let data = fds.iter().map(|fd| fd.as_raw_fd() as u32);
    set_irqs_raw(device, index, action | VFIO_IRQ_SET_DATA_EVENTFD, fds.len() as u32, data)
}

/// `VFIO_DEVICE_SET_IRQS` from vector 0 on, with words behind the structure.
pub(crate) fn set_irqs_raw(
    device: Fd<'_>,
    index: u32,
    flags: u32,
    count: u32,
    data: impl Iterator<Item = u32>,
) -> io::Result<usize> {
    let start = 0;
    let mut words = vec![0, flags, index, start, count];
    words.extend(data);
    // Lists are of 2048 vectors at most.
    let size = size_of_val(words.as_slice()) as u32;
    if let Some(argsz) = words.first_mut() {
        *argsz = size;
    }
    // SAFETY: the kernel reads `argsz` bytes, and there are as many; five words are the structure.
    let result = unsafe { call_with(device, DEVICE_SET_IRQS, words.as_mut_ptr()) }?;
    Ok(usize::try_from(result).unwrap_or(0))
}

/// Maps `size` bytes at `vaddr` for the group's devices.
///
/// # Safety
/// The memory stays valid and mapped here until it is unmapped there, and whoever else uses it
/// reckons with what devices write.
pub(crate) unsafe fn map_dma(
    container: Fd<'_>,
    flags: u32,
    vaddr: u64,
    iova: u64,
    size: u64,
) -> io::Result<()> {
    let argsz = argsz::<vfio_iommu_type1_dma_map>();
    let mut map = vfio_iommu_type1_dma_map { argsz, flags, vaddr, iova, size };
    // SAFETY: the kernel reads a `vfio_iommu_type1_dma_map`; the memory is the caller's promise.
    unsafe { call_with(container, IOMMU_MAP_DMA, &mut map) }.map(drop)
}

/// `struct vfio_iommu_type1_dma_unmap` without the flexible array at its end.
#[repr(C)]
struct DmaUnmap {
    argsz: u32,
    flags: u32,
    iova: u64,
    size: u64,
}

/// Takes a range from the devices again. Returns how many bytes had been mapped.
pub(crate) fn unmap_dma(container: Fd<'_>, iova: u64, size: u64) -> io::Result<u64> {
    let mut unmap = DmaUnmap { argsz: argsz::<DmaUnmap>(), flags: 0, iova, size };
    // SAFETY: the kernel reads and writes a `vfio_iommu_type1_dma_unmap` without data.
    unsafe { call_with(container, IOMMU_UNMAP_DMA, &mut unmap) }?;
    Ok(unmap.size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfio_bindings::bindings::vfio::{vfio_iommu_type1_dma_unmap, vfio_irq_set};

    #[test]
    fn own_layouts_are_the_kernels() {
        assert_eq!(size_of::<DmaUnmap>(), size_of::<vfio_iommu_type1_dma_unmap>());
        assert_eq!(size_of::<vfio_irq_set>(), 5 * size_of::<u32>());
        assert_eq!((GET_API_VERSION, IOMMU_UNMAP_DMA), (0x3b64, 0x3b72));
    }

    #[test]
    fn a_file_that_is_no_vfio_gives_an_error() {
        use std::os::fd::AsFd;
        let null = std::fs::File::open("/dev/null").unwrap();
        assert!(api_version(null.as_fd()).is_err());
        assert!(region_info(null.as_fd(), 0).is_err());
        assert!(set_irqs(null.as_fd(), 0, 0, &[null.as_fd()]).is_err());
    }
}
