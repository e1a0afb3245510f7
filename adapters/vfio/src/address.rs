//! Where a function is on the PCI buses.

use std::fmt;
use std::str::FromStr;

/// Domain, bus, device and function, written `0000:01:00.0`.
///
/// ```
/// # #[cfg(target_os = "linux")] {
/// use tombolo_vfio::PciAddress;
///
/// let address: PciAddress = "01:00.0".parse()?;
/// assert_eq!(address.to_string(), "0000:01:00.0");
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// Domain (segment): 16 bits on most machines, more behind some host bridges.
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Device on the bus, 0 to 31.
    pub device: u8,
    /// Function of the device, 0 to 7.
    pub function: u8,
}

/// A text is no address of a function.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no PCI address; expected DOMAIN:BUS:DEVICE.FUNCTION in hexadecimal, such as 0000:01:00.0")]
pub struct BadAddress(pub String);

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function}")
    }
}

impl FromStr for PciAddress {
    type Err = BadAddress;

    /// Reads `0000:01:00.0`; without a domain it is 0.
    fn from_str(text: &str) -> Result<Self, BadAddress> {
        parse(text).ok_or_else(|| BadAddress(text.chars().take(40).collect()))
    }
}

fn parse(text: &str) -> Option<PciAddress> {
    let (rest, function) = text.rsplit_once('.')?;
    let (rest, device) = rest.rsplit_once(':')?;
    let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0", rest));
    Some(PciAddress {
        domain: hex(domain, 8, u32::MAX)?,
        bus: hex(bus, 2, 0xff)? as u8,
        device: hex(device, 2, 0x1f)? as u8,
        function: hex(function, 1, 7)? as u8,
    })
}

fn hex(digits: &str, most: usize, limit: u32) -> Option<u32> {
    let plain = !digits.is_empty() && digits.len() <= most && digits.bytes().all(|b| b.is_ascii_hexdigit());
    let value = u32::from_str_radix(digits, 16).ok().filter(|_| plain)?;
    (value <= limit).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_and_without_domain() {
        let full: PciAddress = "0001:a0:1f.7".parse().unwrap();
        assert_eq!(full, PciAddress { domain: 1, bus: 0xa0, device: 0x1f, function: 7 });
        assert_eq!("10000:e0:00.0".parse::<PciAddress>().unwrap().to_string(), "10000:e0:00.0");
        assert_eq!("2:3.4".parse::<PciAddress>().unwrap().to_string(), "0000:02:03.4");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for bad in
            ["", "01:00", "01:20.0", "01:00.8", "0000:100:00.0", "../etc", "+1:0.0", "0:0:0:0.0", "é:0.0"]
        {
            assert!(bad.parse::<PciAddress>().is_err(), "{bad}");
        }
    }
}
