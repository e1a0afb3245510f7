//! Linux's words for our driver's, and back.

use dw_edma::{Format, Mode, Peripheral};
use tombolo_hal::EngineAddr;
use tombolo_hal::dmaengine::{
    BusWidth, Completion, Direction, Event, SlaveConfig, TxResult, TxState, TxStatus,
};

use crate::abi;

/// What a client asked for that no engine of this kind does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadSlave {
    /// `peripheral_config` says how to move data, which only HDMA native has a choice of.
    #[error("peripheral_config is for HDMA native only, this engine is {0}")]
    NotNative(Format),
}

/// A client's configuration.
///
/// Bus widths are not looked at: the engine moves bytes, and clients of the stock driver, which does
/// not look at them either, may ask for a width and then move odd lengths.
///
/// # Errors
/// [`BadSlave`].
pub fn slave(config: &abi::Slave, format: Format) -> Result<SlaveConfig<Peripheral>, BadSlave> {
    let mode = if config.flags & abi::SLAVE_HAS_MODE == 0 {
        None
    } else if format != Format::HdmaNative {
        return Err(BadSlave::NotNative(format));
    } else if config.non_list != 0 {
        Some(Mode::NonList)
    } else {
        Some(Mode::List)
    };
    Ok(SlaveConfig {
        src_addr: EngineAddr::new(config.src_addr),
        dst_addr: EngineAddr::new(config.dst_addr),
        addr_width: BusWidth::Bytes1,
        peripheral: Peripheral { mode },
    })
}

/// Linux's `enum dma_transfer_direction`.
pub const fn direction(linux: u32) -> Option<Direction> {
    match linux {
        abi::MEM_TO_DEV => Some(Direction::MemToDev),
        abi::DEV_TO_MEM => Some(Direction::DevToMem),
        _ => None,
    }
}

/// Linux's residue has 32 bits.
pub fn residue(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Linux's `enum dmaengine_tx_result`.
pub const fn tx_result(result: TxResult) -> u32 {
    match result {
        TxResult::NoError => abi::TRANS_NOERROR,
        TxResult::ReadFailed => abi::TRANS_READ_FAILED,
        TxResult::WriteFailed => abi::TRANS_WRITE_FAILED,
        _ => abi::TRANS_ABORTED,
    }
}

/// What a channel reports, for the shim.
pub fn completion(completion: &Completion) -> abi::Completion {
    let (kind, period) = match completion.event {
        Event::Finished => (abi::KIND_FINISHED, 0),
        Event::Period { index } => (abi::KIND_PERIOD, index),
    };
    abi::Completion {
        cookie: completion.cookie.into_raw(),
        kind,
        result: tx_result(completion.result),
        residue: residue(completion.residue),
        period,
    }
}

/// How far a transfer has come, for the shim.
pub fn status(state: &TxState) -> abi::Status {
    abi::Status { residue: residue(state.residue), paused: u32::from(state.status == TxStatus::Paused) }
}
