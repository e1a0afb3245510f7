//! The first message: versions and capabilities.

use super::fields::{Fields, Put};
use super::{Errno, MAX_DATA, MAX_FDS, Malformed};
use serde_json::{Value, json};

/// What one side can do, with the specification's defaults for what it does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// File descriptors that it takes with one message.
    pub max_fds: u64,
    /// Data bytes of one message that it takes.
    pub max_data: u64,
    /// Whether it takes several writes in one message.
    pub write_multiple: bool,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self { max_fds: 1, max_data: MAX_DATA.into(), write_multiple: false }
    }
}

impl Capabilities {
    /// What this crate can do.
    pub fn ours(write_multiple: bool) -> Self {
        Self { max_fds: MAX_FDS as u64, max_data: MAX_DATA.into(), write_multiple }
    }

    fn from_json(text: &[u8]) -> Result<Self, Malformed> {
        let value: Value = serde_json::from_slice(text).map_err(|_| Errno::INVAL)?;
        let mut found = Self::default();
        let Some(all) = value.get("capabilities") else { return Ok(found) };
        let all = all.as_object().ok_or(Errno::INVAL)?;
        let number = |name, or: u64| all.get(name).map_or(Ok(or), |value| value.as_u64().ok_or(Errno::INVAL));
        found.max_fds = number("max_msg_fds", found.max_fds)?;
        found.max_data = number("max_data_xfer_size", found.max_data)?;
        if let Some(value) = all.get("write_multiple") {
            found.write_multiple = value.as_bool().ok_or(Errno::INVAL)?;
        }
        Ok(found)
    }

    fn to_json(self) -> String {
        json!({"capabilities": {
            "max_msg_fds": self.max_fds,
            "max_data_xfer_size": self.max_data,
            // Maps of any size are taken, down to a byte.
            "pgsizes": 4096,
            "max_dma_maps": 65535,
            "write_multiple": self.write_multiple,
        }})
        .to_string()
    }
}

/// Versions and capabilities, of request and reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Messages of another major version mean something else.
    pub major: u16,
    /// What was added since.
    pub minor: u16,
    /// What the sender can do.
    pub capabilities: Capabilities,
}

impl Version {
    /// Version 0.0, which is all there is. A reply must not be above the request; QEMU asks for 0.0.
    pub fn ours(write_multiple: bool) -> Self {
        Self { major: 0, minor: 0, capabilities: Capabilities::ours(write_multiple) }
    }

    pub(super) fn parse(mut fields: Fields<'_>) -> Result<Self, Malformed> {
        let (major, minor) = (fields.u16()?, fields.u16()?);
        let text = fields.rest();
        // The text is optional and ends with a NUL; what follows that is not looked at.
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let capabilities =
            if text.is_empty() { Capabilities::default() } else { Capabilities::from_json(text)? };
        Ok(Self { major, minor, capabilities })
    }

    /// Reads the body of a reply.
    ///
    /// # Errors
    /// `EINVAL` if it makes no sense.
    pub fn parse_reply(body: &[u8]) -> Result<Self, Malformed> {
        Self::parse(Fields::new(body))
    }

    /// Appends the body.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put16(self.major);
        out.put16(self.minor);
        out.extend_from_slice(self.capabilities.to_json().as_bytes());
        out.push(0);
    }
}
