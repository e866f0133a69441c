//! How long and how much to measure, as the command line has it.

pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let allowed = || "write a number of seconds from 0.01 to 600".to_owned();
    let seconds: f64 = text.parse().map_err(|_| allowed())?;
    if (0.01..=600.0).contains(&seconds) { Ok(seconds) } else { Err(allowed()) }
}

pub(crate) fn scale(text: &str) -> Result<f64, String> {
    let allowed = || "write a number from 0.001 to 100".to_owned();
    let scale: f64 = text.parse().map_err(|_| allowed())?;
    if (0.001..=100.0).contains(&scale) { Ok(scale) } else { Err(allowed()) }
}
