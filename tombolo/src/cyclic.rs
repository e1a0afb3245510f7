//! Cyclic transfers: an endless ride through a buffer, of which every period is checked when it is
//! reported and gets new data before the engine comes round again.
//!
//! A period that was reported belongs to the one who asks until the next question; only then the
//! driver hands it to the engine again. So there is a right moment to check it and to fill it for the
//! next round, on both sides.

use dw_edma::{ChannelId, direction_of};
use tombolo_hal::dma::{DataDirection, DmaConstraints, Streaming};
use tombolo_hal::dmaengine::{Completion, Cookie, Direction, Event, OwnedTransfers, PrepFlags, SlaveConfig};

use crate::data::Data;
use crate::device_side::{check_guards, guard};
use crate::job::Job;
use crate::pace::{Due, Heard, Pacer};
use crate::platform::Platform;
use crate::progress::Progress;
use crate::rig::{Chan, REST_LIMIT_US, Rig, RigError};
use crate::tally::Tally;

type Owned<P> = OwnedTransfers<Chan<P>, <P as Platform>::Dma, Vec<u8>, 1, 1>;

/// One channel with its buffer.
struct Lane<P: Platform> {
    id: ChannelId,
    direction: Direction,
    transfers: Owned<P>,
    cookie: Option<Cookie>,
    /// Where its data is on the device side.
    offset: u64,
    /// Periods that were reported.
    reported: u64,
    heard: Heard,
    finished: bool,
}

/// Runs a cyclic job.
pub struct Cyclic<'a, P: Platform> {
    rig: &'a mut Rig<P>,
    job: &'a Job,
    data: Data<'a>,
    pacer: Pacer,
    progress: &'a Progress,
    tally: Tally,
    period: Vec<u8>,
}

impl<'a, P: Platform> Cyclic<'a, P> {
    /// A runner on `rig`, whose channels are closed.
    pub fn new(rig: &'a mut Rig<P>, job: &'a Job, pacer: Pacer, progress: &'a Progress) -> Self {
        let period = vec![0; job.period() as usize];
        Self { rig, job, data: Data::Pattern(job.seed), pacer, progress, tally: Tally::default(), period }
    }

    /// Does all rounds, stops the channels and closes them again.
    ///
    /// # Errors
    /// [`RigError`] if the rig cannot be used. What goes wrong with transfers is in the tally.
    pub fn run(mut self) -> Result<(Tally, Pacer), RigError> {
        let mut lanes = self.open()?;
        self.tally.begin(self.rig);
        let result = self.drive(&mut lanes);
        self.tally.end(self.rig, result);
        for lane in &mut lanes {
            if !lane.finished {
                self.give_up(lane, "was stopped");
            }
        }
        for lane in lanes {
            self.close(lane)?;
        }
        Ok((self.tally, self.pacer))
    }

    fn open(&mut self) -> Result<Vec<Lane<P>>, RigError> {
        let location = self.rig.spec().location;
        let ids: Vec<ChannelId> = self.rig.ids().collect();
        let mut lanes = Vec::new();
        for (number, id) in ids.into_iter().enumerate() {
            let channel = self.rig.open(id, 1, self.job.sg)?;
            lanes.push(Lane {
                id,
                direction: direction_of(location, id.kind),
                transfers: OwnedTransfers::new(channel),
                cookie: None,
                offset: self.job.device_offset(number, 0),
                reported: 0,
                heard: Heard::at(self.rig.now_ns()),
                finished: false,
            });
        }
        Ok(lanes)
    }

    fn drive(&mut self, lanes: &mut [Lane<P>]) -> Result<(), Box<dyn std::error::Error>> {
        for lane in lanes.iter_mut() {
            self.start(lane)?;
        }
        while lanes.iter().any(|lane| !lane.finished) {
            self.pacer.tick(self.rig);
            self.rig.refresh_messages()?;
            let mut news = false;
            for lane in lanes.iter_mut().filter(|lane| !lane.finished) {
                news |= self.collect(lane)?;
            }
            let waiting = lanes.iter().filter(|lane| !lane.finished);
            let deadline = waiting.map(|lane| self.pacer.deadline(&lane.heard)).min();
            if let Some(deadline) = deadline.filter(|_| !news) {
                self.pacer.wait(self.rig, deadline)?;
                for lane in lanes.iter_mut().filter(|lane| !lane.finished) {
                    self.look(lane);
                }
            }
        }
        Ok(())
    }

    fn start(&mut self, lane: &mut Lane<P>) -> Result<(), RigError> {
        guard(self.rig, lane.offset, self.job.size)?;
        let mut memory = vec![0; self.job.size as usize];
        let direction = match lane.direction {
            Direction::MemToDev => DataDirection::ToDevice,
            Direction::DevToMem => DataDirection::FromDevice,
        };
        for number in 0..self.job.sg as u64 {
            self.fill(lane, number);
            let at = self.place(number);
            match lane.direction {
                Direction::MemToDev => {
                    memory[at as usize..][..self.period.len()].copy_from_slice(&self.period)
                }
                Direction::DevToMem => self.rig.device_write(lane.offset + at, &self.period)?,
            }
        }
        let buffer =
            Streaming::prepare(self.rig.platform.dma().clone(), memory, direction, &DmaConstraints::any())
                .map_err(|refused| RigError::dma(refused.error))?;
        lane.transfers.configure(&SlaveConfig::at(self.rig.device_address(lane.offset)))?;
        let flags = PrepFlags::INTERRUPT;
        match lane.transfers.submit_cyclic(buffer, self.job.period(), lane.direction, flags) {
            Ok(cookie) => {
                lane.cookie = Some(cookie);
                lane.transfers.issue_pending();
            }
            Err(refused) => self.fail(lane, &refused.reason.to_string()),
        }
        Ok(())
    }

    /// Takes the periods that were reported. The next question hands each to the engine again.
    fn collect(&mut self, lane: &mut Lane<P>) -> Result<bool, RigError> {
        let mut news = false;
        while !lane.finished
            && let Some(finished) = lane.transfers.pop_finished()
        {
            news = true;
            self.take(lane, finished.completion)?;
        }
        if news {
            lane.heard = Heard::at(self.rig.now_ns());
        }
        Ok(news)
    }

    fn take(&mut self, lane: &mut Lane<P>, completion: Completion) -> Result<(), RigError> {
        let Event::Period { index } = completion.event else {
            let text = format!("{} after {} periods", completion.result, lane.reported);
            self.fail(lane, &text);
            return Ok(());
        };
        let (number, count) = (lane.reported, self.job.sg as u64);
        if u64::from(index) != number % count {
            self.fail(lane, &format!("period {index} was reported in place of {}", number % count));
            return Ok(());
        }
        self.check(lane, number)?;
        lane.reported += 1;
        self.tally.periods += 1;
        self.tally.bytes += self.job.period();
        self.progress.add(self.job.period());
        if lane.reported == count * u64::from(self.job.iterations) {
            self.stop(lane);
            return Ok(());
        }
        self.supply(lane, number + count)
    }

    fn look(&mut self, lane: &mut Lane<P>) {
        match self.pacer.due(self.rig, &mut lane.heard) {
            Due::Nothing => {}
            Due::Look => {
                if let Err(error) = lane.transfers.poll_hardware() {
                    self.tally.cause(error.to_string());
                }
            }
            Due::GiveUp => {
                let ms = self.pacer.limits().timeout_ns / 1_000_000;
                self.give_up(lane, &format!("was silent for {ms} ms"));
            }
        }
    }

    /// The data of a period, counted through all rounds.
    fn fill(&mut self, lane: &Lane<P>, number: u64) {
        if self.job.verify {
            let (stream, at) = (self.stream(lane, number), self.place(number));
            self.data.fill(stream, at, &mut self.period);
        }
    }

    /// Puts the data of a later round where it comes from.
    fn supply(&mut self, lane: &mut Lane<P>, number: u64) -> Result<(), RigError> {
        if !self.job.verify {
            return Ok(());
        }
        self.fill(lane, number);
        let at = self.place(number);
        match (lane.direction, lane.cookie) {
            (Direction::DevToMem, _) => self.rig.device_write(lane.offset + at, &self.period)?,
            (Direction::MemToDev, Some(cookie)) => {
                lane.transfers.write_period(cookie, at as usize, &self.period);
            }
            (Direction::MemToDev, None) => {}
        }
        Ok(())
    }

    /// Compares the data of a period where it went.
    fn check(&mut self, lane: &Lane<P>, number: u64) -> Result<(), RigError> {
        if !self.job.verify {
            return Ok(());
        }
        let at = self.place(number);
        self.period.fill(0);
        match (lane.direction, lane.cookie) {
            (Direction::MemToDev, _) => self.rig.device_read(lane.offset + at, &mut self.period)?,
            (Direction::DevToMem, Some(cookie)) => {
                lane.transfers.read_period(cookie, at as usize, &mut self.period);
            }
            (Direction::DevToMem, None) => {}
        }
        let differences = self.data.check(self.stream(lane, number), at, &self.period);
        self.tally.mismatch(&format!("{}, period {number}", lane.id), differences);
        Ok(())
    }

    /// Where in the buffer a period is.
    fn place(&self, number: u64) -> u64 {
        number % self.job.sg as u64 * self.job.period()
    }

    /// Each round of each channel has a stream of its own.
    fn stream(&self, lane: &Lane<P>, number: u64) -> u64 {
        self.job.stream(lane.id, number / self.job.sg as u64)
    }

    /// All rounds are done: the endless transfer is ended while the engine is in the midst of it.
    fn stop(&mut self, lane: &mut Lane<P>) {
        lane.finished = true;
        if self.rest(lane) {
            self.tally.transfers += 1;
        } else {
            self.fail(lane, "obeyed no stop");
        }
    }

    fn rest(&mut self, lane: &mut Lane<P>) -> bool {
        let stopping = lane.transfers.terminate_all();
        stopping.is_ok() && lane.transfers.synchronize(self.rig.delay(), REST_LIMIT_US).is_ok()
    }

    fn fail(&mut self, lane: &mut Lane<P>, why: &str) {
        lane.finished = true;
        self.tally.failed(format!("{}: {why}", lane.id));
    }

    fn give_up(&mut self, lane: &mut Lane<P>, why: &str) {
        let mut text = format!("{why} after {} periods", lane.reported);
        if !self.rest(lane) && !self.rig.is_gone() {
            text.push_str(" and obeyed no stop");
            match self.rig.reset() {
                Ok(()) => text.push_str("; the function was reset"),
                Err(error) => text.push_str(&format!("; the function did not come back from reset: {error}")),
            }
        }
        self.fail(lane, &text);
    }

    fn close(&mut self, mut lane: Lane<P>) -> Result<(), RigError> {
        // A transfer that failed by a wrong report may still run.
        let _ = lane.transfers.terminate_all();
        let _ = lane.transfers.synchronize(self.rig.delay(), REST_LIMIT_US);
        while lane.transfers.pop_terminated().is_some() {}
        if self.job.verify {
            // On the memory side the IOMMU guards: it maps the buffer and not a byte more.
            let overrun = check_guards(self.rig, lane.offset, self.job.size)?;
            self.tally.mismatch(&format!("{}, guards", lane.id), overrun);
        }
        self.tally.stats(lane.transfers.channel().stats());
        match lane.transfers.into_channel() {
            Ok(channel) => self.rig.close(channel),
            // Dropping it puts its buffer into quarantine, which the report counts.
            Err(stuck) => {
                drop(stuck);
                Ok(())
            }
        }
    }
}
