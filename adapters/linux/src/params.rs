//! Module parameters that are more than a number.

use crate::abi::{IRQ_MSI, IRQ_MSIX};

/// Which interrupts the module may use, as the bits `1 << IRQ_MSI` and `1 << IRQ_MSIX`; 0 is polling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IrqChoice(pub u32);

/// A parameter that says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadParam {
    /// The parameter `irq`.
    #[error("irq= takes auto, msi-x, msi or polling")]
    Irq,
}

/// The parameter `irq`: what the kernel's `charp` holds, a newline at its end or not.
///
/// # Errors
/// [`BadParam::Irq`].
pub fn irq_choice(text: &[u8]) -> Result<IrqChoice, BadParam> {
    match text.trim_ascii() {
        b"auto" => Ok(IrqChoice(1 << IRQ_MSI | 1 << IRQ_MSIX)),
        b"msi-x" | b"msix" => Ok(IrqChoice(1 << IRQ_MSIX)),
        b"msi" => Ok(IrqChoice(1 << IRQ_MSI)),
        b"polling" => Ok(IrqChoice(0)),
        _ => Err(BadParam::Irq),
    }
}
