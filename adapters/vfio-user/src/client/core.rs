//! The device behind the connection: its regions, and accesses to them.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use vfio_bindings::bindings::vfio::{
    VFIO_DEVICE_FLAGS_PCI, VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_NUM_IRQS, VFIO_REGION_INFO_FLAG_MMAP,
};

use super::Error;
use super::connection::Connection;
use crate::protocol::{
    ACCESS_SIZE, Access, Area, Command, DeviceInfo, IrqInfo, RegionInfo, SetIrqs, Version,
};
use crate::shared_file::SharedFile;
use crate::stream::Fds;

/// BARs of a function.
pub(super) const BARS: usize = 6;

/// Bytes of a file that are mapped at most.
const MOST_MAPPED: u64 = 1 << 44;

/// A region, and the parts of it that are mapped.
#[derive(Debug)]
pub(super) struct Region {
    pub size: u64,
    /// Areas, and where the region's byte 0 is in the file.
    mapped: Option<(Vec<Area>, usize, SharedFile)>,
}

/// An open device.
#[derive(Debug)]
pub(super) struct Core {
    pub connection: Arc<Connection>,
    pub info: DeviceInfo,
    pub bars: [Option<Region>; BARS],
    pub irqs: Vec<IrqInfo>,
    /// The function was seen to be gone although the server is there.
    absent: AtomicBool,
}

impl Core {
    pub fn open(path: &Path, limit: Duration) -> Result<Self, Error> {
        let connection = Connection::open(path, limit)?;
        let mut body = Vec::new();
        Version::ours(false).put(&mut body);
        let (answer, _) = connection.call("agree on a version", Command::Version, &[&body], &[])?;
        let version =
            Version::parse_reply(&answer).map_err(|_| Error::Gone { what: "agree on a version" })?;
        if version.major != 0 {
            return Err(Error::Version { major: version.major, minor: version.minor });
        }
        let info = device_info(&connection)?;
        let enough = info.regions > VFIO_PCI_CONFIG_REGION_INDEX;
        if info.flags & VFIO_DEVICE_FLAGS_PCI == 0 || !enough {
            return Err(Error::NotPci);
        }
        let mut bars = [const { None }; BARS];
        for (index, bar) in (0u32..).zip(&mut bars) {
            *bar = region(&connection, index)?;
        }
        let count = info.irqs.min(VFIO_PCI_NUM_IRQS);
        let irqs = (0..count).map(|index| irq_info(&connection, index)).collect::<Result<_, _>>()?;
        Ok(Self { connection, info, bars, irqs, absent: AtomicBool::new(false) })
    }

    pub fn is_gone(&self) -> bool {
        self.absent.load(Ordering::Relaxed) || self.connection.is_gone()
    }

    /// The function reads all ones, or does so no longer.
    pub fn set_absent(&self, absent: bool) {
        self.absent.store(absent, Ordering::Relaxed);
    }

    /// Reads a region; false, with all ones, if the server does not do it.
    pub fn read(&self, region: u32, offset: u64, data: &mut [u8]) -> bool {
        let access = Access { offset, region, count: data.len() as u32 };
        let mut body = Vec::with_capacity(ACCESS_SIZE);
        access.put(&mut body);
        let answer = self.connection.call("read", Command::RegionRead, &[&body], &[]).ok();
        let found = answer.as_ref().and_then(|(body, _)| {
            let (repeated, bytes) = Access::parse_reply(body).ok()?;
            (repeated.count == access.count).then_some(bytes).filter(|bytes| bytes.len() == data.len())
        });
        match found {
            Some(bytes) => data.copy_from_slice(bytes),
            None => data.fill(u8::MAX),
        }
        found.is_some()
    }

    /// Writes a region, and waits until it is done: a reply tells that the server took it.
    pub fn write(&self, region: u32, offset: u64, data: &[u8]) -> bool {
        let mut body = Vec::with_capacity(ACCESS_SIZE);
        Access { offset, region, count: data.len() as u32 }.put(&mut body);
        self.connection.call("write", Command::RegionWrite, &[&body, data], &[]).is_ok()
    }

    /// Connects, masks or unmasks interrupts.
    pub fn set_irqs(&self, request: &SetIrqs<'_>, fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        let mut body = Vec::new();
        request.put(&mut body);
        self.connection.call("set interrupts", Command::SetIrqs, &[&body], fds).map(|_| ())
    }
}

impl Region {
    /// The word at `offset`, if it is mapped.
    #[inline]
    pub fn load32(&self, offset: usize) -> Option<u32> {
        let (areas, start, file) = self.mapped.as_ref()?;
        holds(areas, offset).then(|| file.load32(start + offset)).flatten()
    }

    /// Writes the word at `offset`, if it is mapped.
    #[inline]
    pub fn store32(&self, offset: usize, value: u32) -> Option<()> {
        let (areas, start, file) = self.mapped.as_ref()?;
        holds(areas, offset).then(|| file.store32(start + offset, value)).flatten()
    }

    /// Reads `data` at `offset`, if it is mapped.
    pub fn load(&self, offset: usize, data: &mut [u8]) -> Option<()> {
        let (areas, start, file) = self.mapped.as_ref()?;
        (holds(areas, offset) && file.read((start + offset) as u64, data)).then_some(())
    }

    /// Writes `data` at `offset`, if it is mapped.
    pub fn store(&self, offset: usize, data: &[u8]) -> Option<()> {
        let (areas, start, file) = self.mapped.as_ref()?;
        (holds(areas, offset) && file.write((start + offset) as u64, data)).then_some(())
    }
}

/// Whether an aligned word at `offset` lies in an area. Areas are pages.
fn holds(areas: &[Area], offset: usize) -> bool {
    let offset = offset as u64;
    areas.iter().any(|area| offset >= area.offset && offset - area.offset < area.size)
}

fn device_info(connection: &Connection) -> Result<DeviceInfo, Error> {
    const WHAT: &str = "describe the device";
    let mut body = Vec::new();
    DeviceInfo::default().put(&mut body);
    let (answer, _) = connection.call(WHAT, Command::DeviceInfo, &[&body], &[])?;
    DeviceInfo::parse(&answer).map_err(|_| Error::Gone { what: WHAT })
}

fn irq_info(connection: &Connection, index: u32) -> Result<IrqInfo, Error> {
    const WHAT: &str = "describe an interrupt";
    let mut body = Vec::new();
    IrqInfo { index, ..IrqInfo::default() }.put(&mut body);
    match connection.call(WHAT, Command::IrqInfo, &[&body], &[]) {
        Ok((answer, _)) => IrqInfo::parse(&answer).map_err(|_| Error::Gone { what: WHAT }),
        // Some servers know no error and request interrupts.
        Err(Error::Refused { .. }) => Ok(IrqInfo { index, ..IrqInfo::default() }),
        Err(error) => Err(error),
    }
}

/// A BAR; `None` if the function does not have it.
fn region(connection: &Connection, index: u32) -> Result<Option<Region>, Error> {
    const WHAT: &str = "describe a BAR";
    // Room for more areas than there are.
    const ROOM: u32 = 4096;
    let mut body = Vec::new();
    RegionInfo::put_request(index, ROOM, &mut body);
    let (answer, fds) = connection.call(WHAT, Command::RegionInfo, &[&body], &[])?;
    let (info, _) = RegionInfo::parse(&answer).map_err(|_| Error::Gone { what: WHAT })?;
    if info.size == 0 || usize::try_from(info.size).is_err() {
        return Ok(None);
    }
    Ok(Some(Region { size: info.size, mapped: map(&info, fds) }))
}

/// Maps what can be; the rest is accessed by messages. So is a file that could become shorter under the
/// mapping.
fn map(info: &RegionInfo, fds: Fds) -> Option<(Vec<Area>, usize, SharedFile)> {
    let fd = fds.fds.into_iter().next().filter(|_| info.flags & VFIO_REGION_INFO_FLAG_MMAP != 0)?;
    let whole = Area { offset: 0, size: info.size };
    let areas = if info.areas.is_empty() { vec![whole] } else { info.areas.clone() };
    let file = std::fs::File::from(fd);
    let opened = SharedFile::key(&file).and_then(|_| SharedFile::new(file.into(), MOST_MAPPED));
    let file = opened.ok().filter(SharedFile::is_mapped);
    if file.is_none() {
        log::info!("region {}: the server's file cannot be mapped safely", info.index);
    }
    let file = file?;
    // Checked when the answer was read: no sum overflows.
    let fits = areas.iter().all(|area| info.offset + area.offset + area.size <= file.len);
    Some((areas, usize::try_from(info.offset).ok()?, file)).filter(|_| fits)
}
