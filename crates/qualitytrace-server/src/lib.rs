//! How traces arrive, runs happen and results stay.
