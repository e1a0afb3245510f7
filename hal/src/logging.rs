//! Logging behind the features `log` and `defmt`. Never on a data path.

/// Something that a person should look at.
macro_rules! warning {
    ($($arg:tt)*) => {{
        #[cfg(feature = "log")]
        log::warn!($($arg)*);
        #[cfg(all(feature = "defmt", not(feature = "log")))]
        defmt::warn!($($arg)*);
        #[cfg(not(any(feature = "log", feature = "defmt")))]
        let _ = ::core::format_args!($($arg)*);
    }};
}
pub(crate) use warning;
