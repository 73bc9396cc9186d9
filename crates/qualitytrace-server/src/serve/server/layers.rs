//! What a request to the API passes before it reaches its route.

use axum::middleware::{from_fn, from_fn_with_state};

use crate::http::routes::Routes;
use crate::http::web::{Page, serve_page};
use crate::observability::{Recorder, trace_request};
use crate::serve::api::memory::{self, buffer_body};
use crate::serve::api::middleware::{
    Guard, assign_request_id, authenticate, check_content_type, check_origin, run_to_completion,
};

/// The layers around the routes of the API.
pub(super) struct ApiLayers {
    pub(super) recorder: Recorder,
    pub(super) guard: Guard,
    pub(super) page: Page,
    pub(super) memory: memory::Shared,
}

impl ApiLayers {
    /// Puts the layers around routes: a request passes them from top to bottom, its response from bottom to top.
    pub(super) fn around(&self, routes: Routes) -> Routes {
        let layers: [&dyn Fn(Routes) -> Routes; 9] = [
            // Requests to the OTLP endpoints are not recorded.
            &|routes| routes.layer(from_fn(trace_request)),
            &|routes| routes.layer(from_fn(assign_request_id)),
            &|routes| self.recorder.refusals_of(routes),
            &|routes| routes.layer(from_fn_with_state(self.guard.clone(), check_origin)),
            // The page's files are for everyone: who reads them still needs a token for all that they ask for.
            &|routes| routes.layer(from_fn_with_state(self.page, serve_page)),
            &|routes| self.authenticated(routes),
            &|routes| routes.layer(from_fn(check_content_type)),
            &|routes| routes.layer(from_fn_with_state(self.memory.clone(), buffer_body)),
            &|routes| routes.layer(from_fn(run_to_completion)),
        ];
        layers.into_iter().rev().fold(routes, |routes, layer| layer(routes))
    }

    /// Lets only clients with the required access reach the routes.
    pub(super) fn authenticated(&self, routes: Routes) -> Routes {
        routes.layer(from_fn_with_state(self.guard.clone(), authenticate))
    }
}
