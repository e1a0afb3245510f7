//! What kind of controller a model is: chip, revision, interface, memories, timing, doubtful points.

/// The chips of the two families.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Chip {
    /// LAN7430: PHY inside, by GMII.
    Lan7430,
    /// LAN7431: RGMII or MII.
    Lan7431,
    /// LAN743F: as LAN7431, with an ID of its own. Linux has no driver for it.
    Lan743f,
    /// PCI11010: SGMII, RGMII or RMII.
    Pci11010,
    /// PCI11414: as PCI11010, with another ID.
    Pci11414,
}

impl Chip {
    /// All chips.
    pub const ALL: [Chip; 5] = [Chip::Lan7430, Chip::Lan7431, Chip::Lan743f, Chip::Pci11010, Chip::Pci11414];

    /// PCI device ID, which is also the upper half of `ID_REV`.
    pub const fn device_id(self) -> u16 {
        match self {
            Chip::Lan7430 => 0x7430,
            Chip::Lan7431 => 0x7431,
            Chip::Lan743f => 0x743f,
            Chip::Pci11010 => 0xa011,
            Chip::Pci11414 => 0xa041,
        }
    }

    /// Whether it is one of the PCI11x1x, called the second family here.
    pub const fn is_pci11x1x(self) -> bool {
        matches!(self, Chip::Pci11010 | Chip::Pci11414)
    }

    /// Transmit channels. All chips have four receive channels.
    pub const fn tx_channels(self) -> usize {
        if self.is_pci11x1x() { 4 } else { 1 }
    }

    /// Interrupt vectors.
    pub const fn vectors(self) -> u16 {
        if self.is_pci11x1x() { 16 } else { 8 }
    }

    /// Timers of the interrupt moderation.
    pub const fn moderation_timers(self) -> usize {
        if self.is_pci11x1x() { 10 } else { 8 }
    }

    /// Bytes of BAR 0. The size of the second family is the model's choice: the true one is not public.
    pub const fn register_bytes(self) -> u64 {
        if self.is_pci11x1x() { 0x8000 } else { 0x2000 }
    }
}

/// Silicon revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Revision {
    /// The first one. In the first family it has none of the automatic interrupt modes.
    A0,
    /// The second one.
    B0,
    /// Of the first family only; as B0.
    B1,
}

/// How the MAC reaches its PHY or partner. Straps of the second family and `MAC_CR` say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interface {
    /// To the PHY inside (LAN7430).
    Gmii,
    /// RGMII.
    Rgmii,
    /// MII (LAN7431).
    Mii,
    /// SGMII, 1000BASE-X or 2500BASE-X through the PCS (second family).
    Sgmii,
    /// RMII (second family).
    Rmii,
}

/// Delays in nanoseconds. Where sources give none they are the model's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Resets of any block, disabling of MAC and FIFO.
    pub reset_ns: u64,
    /// An MDIO transaction, and one with the PCS.
    pub mdio_ns: u64,
    /// A byte of EEPROM or OTP read.
    pub nvm_read_ns: u64,
    /// A byte of EEPROM or OTP written.
    pub nvm_write_ns: u64,
    /// An access through the data port.
    pub data_port_ns: u64,
    /// From a tail write to the first descriptor fetch.
    pub doorbell_ns: u64,
    /// A PTP command.
    pub ptp_ns: u64,
    /// Power sequence of the PCS.
    pub pcs_power_ns: u64,
    /// From the moment at which a PHY can have a link until it has it.
    pub negotiation_ns: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            reset_ns: 1_000,
            mdio_ns: 25_000,
            nvm_read_ns: 5_000,
            nvm_write_ns: 50_000,
            data_port_ns: 200,
            doorbell_ns: 100,
            ptp_ns: 100,
            pcs_power_ns: 2_000,
            negotiation_ns: 0,
        }
    }
}

/// All parameters of a model. Start from a constructor of [`super::presets`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// The chip.
    pub chip: Chip,
    /// Its revision.
    pub revision: Revision,
    /// How it is wired.
    pub interface: Interface,
    /// MII address of a PHY, or `None`: then MDIO reads all ones.
    pub phy: Option<u8>,
    /// MAC address that the pins or the module's maker left in `RX_ADDR` when neither EEPROM nor OTP has
    /// one. Without it the register reads all ones.
    pub mac: Option<[u8; 6]>,
    /// Content of the EEPROM: up to 512 bytes, second family 65536. Empty: there is none, and each access
    /// ends with a time-out.
    pub eeprom: Vec<u8>,
    /// Content of the OTP memory: up to 1024 bytes, second family 8192; the rest is not programmed (0).
    pub otp: Vec<u8>,
    /// MSI messages offered: 0 (no MSI), 1, 2, 4 or 8.
    pub msi_vectors: u8,
    /// MSI-X vectors offered: 0 (no MSI-X) to the number that the chip has.
    pub msix_vectors: u16,
    /// Seed of all chance in the model.
    pub seed: u64,
    /// Unit of the moderation interval in nanoseconds. The true one is unknown. 0: no hold-off, each event
    /// interrupts.
    pub moderation_unit_ns: u64,
    /// Descriptors that a channel holds: 1 to 64.
    pub cache_descriptors: usize,
    /// Descriptors inside one naturally aligned block of this many bytes are fetched, and written back, by
    /// one request: a power of two from 16 to 4096.
    pub completion_block: u64,
    /// Each nth received frame ends in a buffer more than it needs, which is then empty; 0: never.
    pub extra_buffer_every: u32,
    /// Whether a receive descriptor says how many bytes its buffer has; otherwise that field is 0.
    pub buffer_bytes: bool,
    /// Whether large-send offload knows IPv6.
    pub lso_ipv6: bool,
    /// Whether a MAC that is set to another speed than its PHY loses all frames.
    pub strict_speed: bool,
    /// Second family: OTP addresses have 10 bits, as Linux writes them, instead of 13.
    pub otp_10_bits: bool,
    /// The model looks at its wire by itself in this interval while its receiver is on; 0: it is told (see
    /// [`super::wire`]).
    pub wire_poll_ns: u64,
    /// Delays.
    pub timing: Timing,
}

impl Params {
    /// `ID_REV`.
    pub fn id_rev(&self) -> u32 {
        let revision = match (self.chip.is_pci11x1x(), self.revision) {
            (false, Revision::A0) => 0x00,
            (false, Revision::B0) => 0x10,
            (false, Revision::B1) => 0x11,
            (true, Revision::A0) => 0xa0,
            (true, _) => 0xb0,
        };
        u32::from(self.chip.device_id()) << 16 | revision
    }

    /// Whether the chip has the automatic interrupt modes: all but A0 of the first family.
    pub fn has_auto_clear(&self) -> bool {
        self.chip.is_pci11x1x() || self.revision != Revision::A0
    }

    /// Whether the PCS is in use.
    pub fn is_sgmii(&self) -> bool {
        self.chip.is_pci11x1x() && self.interface == Interface::Sgmii
    }

    pub(super) fn eeprom_limit(&self) -> usize {
        if self.chip.is_pci11x1x() { 65536 } else { 512 }
    }

    pub(super) fn otp_size(&self) -> usize {
        if self.chip.is_pci11x1x() { 8192 } else { 1024 }
    }

    /// Brings every number into its documented range.
    pub(super) fn sanitized(mut self) -> Self {
        let family2 = self.chip.is_pci11x1x();
        self.interface = match (self.chip, self.interface) {
            (Chip::Lan7430, _) => Interface::Gmii,
            (Chip::Lan7431 | Chip::Lan743f, Interface::Mii) => Interface::Mii,
            (_, Interface::Sgmii) if family2 => Interface::Sgmii,
            (_, Interface::Rmii) if family2 => Interface::Rmii,
            _ => Interface::Rgmii,
        };
        if family2 && self.revision == Revision::B1 {
            self.revision = Revision::B0;
        }
        self.phy = self.phy.filter(|address| *address < 32);
        let (eeprom, otp) = (self.eeprom_limit(), self.otp_size());
        self.eeprom.truncate(eeprom);
        self.otp.resize(otp, 0);
        self.msix_vectors = self.msix_vectors.min(self.chip.vectors());
        self.msi_vectors =
            if self.msi_vectors == 0 { 0 } else { self.msi_vectors.min(8).next_power_of_two() };
        self.moderation_unit_ns = self.moderation_unit_ns.min(1_000_000);
        self.cache_descriptors = self.cache_descriptors.clamp(1, 64);
        self.completion_block = self.completion_block.clamp(16, 4096).next_power_of_two();
        self
    }
}
