//! Arbitrary bytes where a client expects answers: what is read is inside of what was sent, and what is
//! accepted makes sense.

use tombolo_vfio_user::protocol::{
    Access, DeviceInfo, HEADER_SIZE, Header, IrqInfo, RegionInfo, Request, Version,
};
use vfio_bindings::bindings::vfio::VFIO_REGION_INFO_FLAG_MMAP;

/// One input of the fuzzer.
pub fn run(data: &[u8]) {
    if let Some(head) = data.first_chunk::<HEADER_SIZE>() {
        let header = Header::parse(head);
        assert_eq!(header.to_bytes(), head);
        let _ = (header.kind(), header.failed().map(|errno| assert_ne!(errno.raw_os_error(), 0)));
    }
    let _ = (DeviceInfo::parse(data), IrqInfo::parse(data), Version::parse_reply(data));
    if let Ok((access, bytes)) = Access::parse_reply(data) {
        assert!(bytes.len() <= data.len() && access.offset.checked_add(access.count.into()).is_some());
    }
    if let Ok((region, _)) = RegionInfo::parse(data)
        && region.flags & VFIO_REGION_INFO_FLAG_MMAP != 0
    {
        assert!(region.offset.checked_add(region.size).is_some());
        for area in &region.areas {
            assert!(area.offset.checked_add(area.size).is_some_and(|end| end <= region.size));
        }
        // What was understood is said again in the same words.
        let mut again = Vec::new();
        region.put(u32::MAX, &mut again);
        let same = RegionInfo::parse(&again).map(|(region, _)| region);
        assert_eq!(same.as_ref(), Ok(&region));
    }
    if let Some((command, body)) = data.split_first() {
        let _ = Request::parse((*command).into(), body);
    }
}
