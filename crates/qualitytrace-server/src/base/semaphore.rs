//! A semaphore whose size can change while permits are held.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A resizable semaphore; a permit is held until it is dropped.
#[derive(Debug)]
pub(crate) struct ResizableSemaphore {
    semaphore: Arc<Semaphore>,
    count: Mutex<Count>,
}

#[derive(Debug)]
struct Count {
    /// The wanted number of permits.
    size: usize,
    /// Permits above `size`, to be retired when they are released.
    surplus: usize,
}

impl ResizableSemaphore {
    pub(crate) fn new(size: usize) -> Self {
        let size = size.min(Semaphore::MAX_PERMITS);
        let count = Mutex::new(Count { size, surplus: 0 });
        Self { semaphore: Arc::new(Semaphore::new(size)), count }
    }

    /// Resizes the semaphore; surplus permits are retired when released.
    pub(crate) fn resize(&self, size: usize) {
        let size = size.min(Semaphore::MAX_PERMITS);
        let mut count = self.count();
        if size > count.size {
            let more = size - count.size;
            let kept = more.min(count.surplus);
            count.surplus -= kept;
            self.semaphore.add_permits(more - kept);
        } else {
            count.surplus += count.size - size;
        }
        count.size = size;
        count.surplus -= self.semaphore.forget_permits(count.surplus);
    }

    /// Waits for a permit. Never `None`: the semaphore is never closed.
    pub(crate) async fn take(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            let permit = Arc::clone(&self.semaphore).acquire_owned().await.ok()?;
            if let Some(permit) = self.kept(permit) {
                return Some(permit);
            }
        }
    }

    /// Takes a permit, if one is free.
    pub(crate) fn try_take(&self) -> Option<OwnedSemaphorePermit> {
        self.try_take_many(1)
    }

    /// Takes so many permits, if they are free.
    pub(crate) fn try_take_many(&self, permits: u32) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.semaphore).try_acquire_many_owned(permits).ok()
    }

    /// Waits for so many permits.
    pub(crate) async fn take_many(&self, permits: u32) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.semaphore).acquire_many_owned(permits).await.ok()
    }

    /// Returns the number of free permits.
    pub(crate) fn free(&self) -> usize {
        self.semaphore.available_permits()
    }

    /// Returns the wanted number of permits.
    pub(crate) fn size(&self) -> usize {
        self.count().size
    }

    /// Whether a permit is free.
    pub(crate) fn has_free(&self) -> bool {
        self.semaphore.available_permits() > 0
    }

    /// Retires a permit if there is a surplus.
    fn kept(&self, permit: OwnedSemaphorePermit) -> Option<OwnedSemaphorePermit> {
        let mut count = self.count();
        if count.surplus == 0 {
            return Some(permit);
        }
        count.surplus -= 1;
        permit.forget();
        None
    }

    fn count(&self) -> MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn fewer_permits_count_as_soon_as_they_are_free() {
        let semaphore = ResizableSemaphore::new(3);
        let (a, b) = (semaphore.take().await.unwrap(), semaphore.take().await.unwrap());
        semaphore.resize(1);
        assert!(!semaphore.has_free());
        drop(a);
        semaphore.resize(1);
        assert!(!semaphore.has_free(), "one of two that were taken is one too many");
        drop(b);
        let only = semaphore.take().await.unwrap();
        assert!(!semaphore.has_free());
        semaphore.resize(2);
        assert!(semaphore.try_take().is_some());
        drop(only);
    }

    #[tokio::test]
    async fn permits_that_were_to_go_stay_when_there_are_more_again() {
        let semaphore = ResizableSemaphore::new(2);
        let taken = (semaphore.take().await.unwrap(), semaphore.take().await.unwrap());
        semaphore.resize(1);
        semaphore.resize(3);
        assert!(semaphore.try_take_many(2).is_none());
        assert!(semaphore.try_take().is_some());
        drop(taken);
        assert!(semaphore.try_take_many(3).is_some());
    }
}
