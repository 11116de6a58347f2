#!/usr/bin/env bash
# Does a test fail when a guard is taken out? bash tests/guards.sh [NAME...]
#
# In a copy of this tree every guard of the list below gets a switch, the tests are built once, and for each guard its test is
# run twice: with the guard, when it has to pass, and with the environment variable GUARD_OUT naming the guard, when it has to
# fail. Nothing of that is ever in the program itself. A line of the source that is not there any more is an error: the list
# is to be kept. With names only those guards are tried. GUARD_FEATURES=--no-default-features builds without SQL, and
# leaves the guards of SQL and MySQL out.
#
# bash tests/guards.sh --lines only looks whether all lines and tests are there, in some seconds and without building.
#
# The exit code is 0 only when every test noticed.
set -euo pipefail
cd "$(dirname "$0")/.."
lines_only=''
[ "${1:-}" != --lines ] || { lines_only=1; shift; }

# NAME | FILE | LINE | ITS REPLACEMENT | TEST
# In a replacement `out!` is whether this guard is taken out. Tests are of the library, or `it::` end to end; `-`: this line is
# another part of the guard above, where two look at the same.
guards() {
    cat <<'LIST'
credentials|src/http/auth.rs|let headers = request.headers();|if out! { return Ok(Identity::anonymous(Role::Admin)); } let headers = request.headers();|it::access::without_credentials_there_is_nothing_but_401
roles|src/http/auth.rs|if reads \|\| may_read_by_post|if out! \|\| reads \|\| may_read_by_post|it::access::each_role_may_do_what_it_may
annotate|src/http/auth.rs|let needed = if annotates {|let needed = if annotates && out! { Role::Read } else if annotates {|it::access::each_role_may_do_what_it_may
probes|src/http/auth.rs|if settings.open_health &&|if (settings.open_health \|\| out!) &&|it::access::without_credentials_there_is_nothing_but_401
revoked-sessions|src/mysql/interruption.rs|Some(pass) => pass.revoked().await,|Some(pass) if !out! => pass.revoked().await, Some(_) => std::future::pending().await,|it::mysql::login::who_is_not_what_it_was_is_sent_away
revoked-streams|src/http/auth.rs|async move { pass.revoked().await }|async move { if out! { std::future::pending::<()>().await } pass.revoked().await }|it::access::streams_end_when_their_user_goes
guessing|src/access/attempts.rs|let ahead_max = FAILED_LOGINS_BURST * FAILED_LOGIN_MS;|if out! { return Ok(()); } let ahead_max = FAILED_LOGINS_BURST * FAILED_LOGIN_MS;|it::access::guessing_is_slow_and_the_guessed_password_waits_too
open-address|src/config/check.rs|let Some(address) = front.listen else { return };|let Some(address) = front.listen.filter(\|_\| !out!) else { return };|it::access::an_open_address_wants_users_or_the_operators_word
target-length|src/http/request_checks.rs|if uri_bytes > URI_BYTES_MAX {|if uri_bytes > URI_BYTES_MAX && !out! {|http::tests::refusals::long_heads
header-length|src/http/request_checks.rs|if header_bytes > HEADER_BYTES_MAX {|if header_bytes > HEADER_BYTES_MAX && !out! {|http::tests::refusals::long_heads
host|src/http/request_checks.rs|if bare.parse::<IpAddr>().is_ok()|if out! \|\| bare.parse::<IpAddr>().is_ok()|http::tests::refusals::hosts_and_origins
origin|src/http/request_checks.rs|if !same {|if !same && !out! {|http::tests::refusals::hosts_and_origins
site|src/http/request_checks.rs|sites.find(|sites.filter(\|_\| !out!).find(|http::tests::refusals::hosts_and_origins
content-type|src/http/request_checks.rs|if !is_of_type(&head.headers, media_type) {|if !is_of_type(&head.headers, media_type) && !out! {|http::tests::refusals::bodies
body-announced|src/http/request_checks.rs|if announced > bytes_max {|if announced > bytes_max && !out! {|http::tests::refusals::bodies
body-length|src/http/request_checks.rs|if bytes.len() + piece.len() > bytes_max {|if bytes.len() + piece.len() > bytes_max && !out! {|http::tests::refusals::bodies
body-time|src/http/request_checks.rs|tokio::time::timeout(patience, receive)|tokio::time::timeout(patience * if out! { 600 } else { 1 }, receive)|http::tests::refusals::slow_clients_are_cut_off
head-time|src/http/connection.rs|.header_read_timeout(settings.head_max)|.header_read_timeout(settings.head_max * if out! { 600 } else { 1 })|http::tests::refusals::slow_clients_are_cut_off
handshake-time|src/http/connection.rs|tokio::time::timeout(settings.handshake_max, handshake)|tokio::time::timeout(settings.handshake_max * if out! { 600 } else { 1 }, handshake)|http::tests::strangers::handshakes_that_do_not_come_about_are_ended
answer-not-taken|src/http/connection.rs|if stuck != 0 && over(stuck, settings.idle_max) {|if stuck != 0 && over(stuck, settings.idle_max) && !out! {|http::tests::refusals::a_client_that_does_not_read_is_cut_off_and_others_are_served
answer-not-taken|src/http/mod.rs|set_tcp_user_timeout(stream, millis)?;|set_tcp_user_timeout(stream, if out! { 0 } else { millis })?;|-
idle-connections|src/http/connection.rs|} else if self.is_unused() &&|} else if !out! && self.is_unused() &&|http::connection::tests
answer-time|src/http/connection.rs|} else if answering != 0 &&|} else if !out! && answering != 0 &&|http::connection::tests
connections|src/access/connection_limits.rs|if taken.all >= self.all_max \|\||if taken.all >= self.all_max && !out! \|\||http::tests::refusals::too_many_connections_are_told_so
connections-of-a-peer|src/access/connection_limits.rs|of_peer >= self.peer_max {|(of_peer >= self.peer_max && !out!) {|http::tests::strangers::one_peer_leaves_places_to_others
turned-away|src/http/mod.rs|&& settings.access.anonymous(peer.ip()).is_some()|&& (out! \|\| settings.access.anonymous(peer.ip()).is_some())|http::tests::strangers::a_stranger_that_is_turned_away_is_told_nothing
questions-at-once|src/http/app.rs|limit("readings", settings.readings_max)|limit("readings", if out! { 99 } else { settings.readings_max })|http::tests::refusals::too_many_queries_are_refused
large-answers-at-once|src/http/app.rs|limit("large answers", settings.streams_max)|limit("large answers", if out! { 99 } else { settings.streams_max })|http::tests::refusals::a_client_that_does_not_read_is_cut_off_and_others_are_served
nosniff|src/http/request_checks.rs|set(X_CONTENT_TYPE_OPTIONS, "nosniff");|if !out! { set(X_CONTENT_TYPE_OPTIONS, "nosniff"); }|http::tests::strangers::every_answer_says_how_browsers_shall_take_it
no-store|src/http/request_checks.rs|set(CACHE_CONTROL, "no-store");|if !out! { set(CACHE_CONTROL, "no-store"); }|http::tests::strangers::every_answer_says_how_browsers_shall_take_it
referrer|src/http/request_checks.rs|set(REFERRER_POLICY, "no-referrer");|if !out! { set(REFERRER_POLICY, "no-referrer"); }|http::tests::strangers::every_answer_says_how_browsers_shall_take_it
same-origin|src/http/request_checks.rs|set(CROSS_ORIGIN_RESOURCE_POLICY, "same-origin");|if !out! { set(CROSS_ORIGIN_RESOURCE_POLICY, "same-origin"); }|http::tests::strangers::every_answer_says_how_browsers_shall_take_it
senders|src/input/udp/senders.rs|if !self.allowed.contains(sender) {|if !self.allowed.contains(sender) && !out! {|it::access::packets_from_elsewhere_are_counted_and_not_looked_at
sender-rate|src/input/udp/senders.rs|!row.take_one(now_ns, self.each_ns) {|!row.take_one(now_ns, self.each_ns) && !out! {|it::access::a_source_that_sends_too_much_leaves_the_others_theirs
certificates-anew|src/daemon/reload.rs|            tls.replace(config);|            if !out! { tls.replace(config); }|it::access::sighup_takes_new_certificates_and_secrets
snapshot-set-aside|src/state/files.rs|fs::rename(path, &aside)?;|if !out! { fs::rename(path, &aside)?; }|it::restart::a_damaged_snapshot_is_set_aside_and_named
snapshot-replaced-whole|src/state/files.rs|fs::rename(&new, path)?;|if out! { fs::write(path, b"")?; } else { fs::rename(&new, path)?; }|it::restart::killed_it_comes_back_as_of_the_last_snapshot
snapshot-failure-said|src/state/snapshot_writer.rs|status.error = Some(why.clone());|if !out! { status.error = Some(why.clone()); }|it::restart::disk::when_there_is_room_again_it_keeps_again
snapshot-periodically|src/state/snapshot_writer.rs|if !period.is_zero() && (is_due|if !out! && !period.is_zero() && (is_due|it::killed::killed_at_any_moment
snapshot-one-moment|src/merger.rs|self.counters.rows_evicted.add(evicted);|if out! { parking_lot::RwLockWriteGuard::unlocked(&mut live, std::thread::yield_now); } self.counters.rows_evicted.add(evicted);|merger::tests::what_is_merged_is_counted_while_the_lock_is_held
snapshot-folded|src/report/aggregate/snapshot.rs|let gone = self.groups.generation(id) != cut.generations[id as usize];|let gone = self.groups.generation(id) != cut.generations[id as usize] && !out!;|state::snapshot::tests::names_that_fold_while_it_is_written
series-set-apart|src/report/registry/watch.rs|let part = self.take_part(false, pool);|let part = if out! { SecondPart { reports: self.watch.list.now(), logs: Vec::new() } } else { self.take_part(false, pool) };|delta::tests::every_second_is_what_a_recount_says
series-follows|src/report/registry/watch.rs|let is_watched = self.reports|let is_watched = out! \|\| self.reports|delta::tests::every_second_is_what_a_recount_says
series-goes|src/series/last_hour.rs|if !self.reports.keys().all(|if !out! && !self.reports.keys().all(|delta::tests::a_series_goes_with_its_report
series-tens|src/series/points.rs|sum.encode(&mut packed, with_histograms);|if out! { sum = Sum::default(); } sum.encode(&mut packed, with_histograms);|delta::tests::every_second_is_what_a_recount_says
drops-cookie|src/state/counters.rs|if socket.is_some_and(\|it\| it.handed_over) && since <= u32::MAX / 2 {|if socket.is_some_and(\|it\| out! \|\| it.handed_over) && (out! \|\| since <= u32::MAX / 2) {|state::counters::tests::a_cookie_that_came_again_hides_no_drops
snapshot-checksum|src/state/records.rs|info.block_checksums(true).content_checksum(true);|info.block_checksums(!out!).content_checksum(!out!);|it::restart::wherever_a_snapshot_is_damaged_that_is_noticed
clock-set-back|src/pool/mod.rs|self.last_timestamp = self.last_timestamp.max(record.received_secs());|self.last_timestamp = if out! { record.received_secs() } else { self.last_timestamp.max(record.received_secs()) };|it::clock::a_wall_clock_that_jumps
snapshot-old-stays|src/state/files.rs|let new = path.with_added_extension("new");|let new = if out! { path.to_owned() } else { path.with_added_extension("new") };|it::restart::a_full_or_read_only_disk_is_said_and_the_old_snapshot_stays
state-files-private|src/state/files.rs|file.set_permissions(Permissions::from_mode(FILE_MODE))?;|file.set_permissions(Permissions::from_mode(if out! { 0o644 } else { FILE_MODE }))?;|it::state::what_it_makes_is_its_owners_alone_whatever_the_umask
state-folder-private|src/state/files.rs|Ok(()) => fs::set_permissions(path, Permissions::from_mode(mode)),|Ok(()) => fs::set_permissions(path, Permissions::from_mode(if out! { 0o755 } else { mode })),|it::state::what_it_makes_is_its_owners_alone_whatever_the_umask
state-no-pipes|src/state/files.rs|let what = if kind.is_file() \|\| kind.is_dir() {|let what = if out! \|\| kind.is_file() \|\| kind.is_dir() {|state::files::tests::what_is_no_file_is_set_aside_unread
state-no-waiting|src/state/files.rs|match fs::remove_file(path) {|match if out! { Ok(()) } else { fs::remove_file(path) } {|state::files::tests::what_is_made_is_its_owners_alone
clock-set-forward|src/merger.rs|let now_ms = self.clock.mono_ms();|let now_ms = if out! { self.clock.unix_ms() } else { self.clock.mono_ms() };|it::clock::a_wall_clock_that_jumps
clock-set-back-while-away|src/state/snapshot.rs|unix_ms.min(MOMENT_MAX).saturating_sub(self.unix_ms)|if out! { unix_ms.min(MOMENT_MAX).wrapping_sub(self.unix_ms) % MOMENT_MAX } else { unix_ms.min(MOMENT_MAX).saturating_sub(self.unix_ms) }|it::restart::a_wall_clock_that_was_set_back_meanwhile_loses_nothing
heap-shared|src/daemon/malloc.rs|if set(&format!("MALLOC_{name}"), "")|if out! \|\| set(&format!("MALLOC_{name}"), "")|it::operate::threads_share_their_heap
no-descriptors-goes-on|src/access/accept.rs|if let Some(repeated) = line {|if out! { std::process::exit(1); } if let Some(repeated) = line {|it::scarce::without_descriptors_it_goes_on_and_comes_back
no-descriptors-pause|src/access/accept.rs|tokio::time::sleep(PAUSE).await;|if !out! { tokio::time::sleep(PAUSE).await; }|it::scarce::without_descriptors_it_goes_on_and_comes_back
timer-tags|src/input/pinba/encode.rs|self.tags(TagOf::Timer, names, values, TIMER_TAGS_MAX, from);|self.tags(TagOf::Timer, names, values, if out! { usize::MAX } else { TIMER_TAGS_MAX }, from);|wire::tests::sizes::tags_past_the_limit_are_skipped_and_counted
page-of-tags|src/query/requests.rs|&& self.tags_bytes < TAGS_BYTES_MAX|&& (out! \|\| self.tags_bytes < TAGS_BYTES_MAX)|it::hostile::the_same_long_words_again_and_again
tags-texts|src/input/record/writer.rs|if usize::from(set.count) >= set.count_max \|\| with > TAGS_TEXT_BYTES_MAX {|if usize::from(set.count) >= set.count_max \|\| (with > TAGS_TEXT_BYTES_MAX && !out!) {|wire::tests::sizes::tags_are_not_more_text_than_a_datagram_has
nested-requests|src/input/pinba/mod.rs|.parse(message, false)|.parse(message, out!)|it::hostile::the_largest_packets_of_every_shape
repeated-tags-differ|src/input/pinba/repeated_tags.rs|if place.hash == hash && tags.are(place) {|if place.hash == hash && (out! \|\| tags.are(place)) {|input::pinba::repeated_tags::tests::tags_with_one_hash_are_told_apart
repeated-tags-bytes|src/input/pinba/repeated_tags.rs|self.bytes_left.checked_sub(tags.bytes())?;|self.bytes_left.checked_sub(if out! { 0 } else { tags.bytes() })?;|input::pinba::repeated_tags::tests::tags_have_a_budget
repeated-tags-lost|src/input/pinba/repeated_tags.rs|return match self.confirmed.has(repeat) {|return match out! \|\| self.confirmed.has(repeat) {|merger::tests::repeated_tags
repeated-tags-gone|src/pool/repeated_tags.rs|if !named.epoch.is_some_and(\|epoch\| epochs.has(epoch)) {|if !out! && !named.epoch.is_some_and(\|epoch\| epochs.has(epoch)) {|merger::tests::repeated_tags
repeated-tags-kept|src/pool/repeated_tags.rs|room.checked_sub(new.bytes()) else {|room.checked_sub(if out! { 0 } else { new.bytes() }) else {|pool::repeated_tags::tests::texts_have_a_budget
numbers-that-are-none|src/input/record/seconds.rs|if seconds > 0.0 && seconds < SECONDS_END {|if out! \|\| seconds > 0.0 && seconds < SECONDS_END {|it::hostile::numbers_that_are_none
colliding-texts|src/pool/strings.rs|string.len as usize == text.len() && string|out! \|\| string.len as usize == text.len() && string|merger::tests::texts_that_all_hash_alike_are_told_apart
colliding-origins|src/pool/dimensions.rs|&& strings.is(origin.script_name, sent.script_name)|&& (out! \|\| strings.is(origin.script_name, sent.script_name))|merger::tests::texts_that_all_hash_alike_are_told_apart
colliding-tag-sets|src/pool/tag_sets.rs|let is = strings.is(id, record.string(sent));|let is = out! \|\| strings.is(id, record.string(sent));|merger::tests::texts_that_all_hash_alike_are_told_apart
names-texts|src/pool/arena.rs|None if self.chunks.len() < self.chunks_max => {|None if out! \|\| self.chunks.len() < self.chunks_max => {|pool::words::tests::words_have_a_budget
names-words|src/pool/strings.rs|match self.table.room() {|match self.table.room() + usize::from(out!) {|pool::strings::tests::words_have_a_budget_and_so_have_their_texts
readings-one-moment|src/report/read.rs|self.add_counted(aggregate, next);|if !out! { self.add_counted(aggregate, next); }|merger::tests::reading
readings-begin-anew|src/report/read.rs|it.meanwhile.moves == self.moves|out! \|\| it.meanwhile.moves == self.moves|merger::tests::reading
names-groups|src/report/aggregate.rs|if !memory.budget.exhausted(self.next_bytes()) {|if !memory.budget.exhausted(self.next_bytes()) \|\| out! {|it::hostile::names_without_end
names-folded-groups|src/report/aggregate/overflow.rs|&& self.next_bytes() <= budget.room();|&& (out! \|\| self.next_bytes() <= budget.room());|merger::tests::memory::names_without_end
groups-searched-again|src/report/aggregate.rs|self.group_cache.search_again();|if !out! { self.group_cache.search_again(); }|merger::tests::more_groups_leave_while_others_are_forgotten
names-shortcuts|src/report/aggregate.rs|(budget.room(), self.groups.end());|(if out! { usize::MAX } else { budget.room() }, self.groups.end());|merger::tests::memory::names_without_end
names-shortcuts|src/report/aggregate/overflow.rs|if budget.taken.all <= enough {|if out! \|\| budget.taken.all <= enough {|-
names-end-to-end|src/report/budget.rs|self.charged() + more > self.usable / 8 * 7|self.charged() + more > self.usable / 8 * 7 && !out!|it::hostile::names_without_end
names-that-recur|src/report/aggregate/close.rs|if !allowance.has(most()) {|if !allowance.has(most()) && !out! {|merger::tests::memory::names_that_recur
names-that-recur-end-to-end|src/report/groups/move_slots.rs|entry + closed.growth_max(histogram) + self.closed.closing_bytes()|if out! { 0 } else { entry + closed.growth_max(histogram) + self.closed.closing_bytes() }|it::hostile::names_that_recur
names-shortcuts-first|src/report/aggregate/overflow.rs|    shrink_caches(aggregates, wanted, memory.budget);|    if !out! { shrink_caches(aggregates, wanted, memory.budget); }|merger::tests::memory::names_without_end_over_long_ticks
times-without-end|src/report/aggregate/overflow.rs|let Some(wanted) = memory.budget.excess() else {|let Some(wanted) = memory.budget.excess().filter(\|_\| !out!) else {|merger::tests::memory::times_without_end_in_one_tick
sums-without-end|src/report/groups/running_tick.rs|*self.wide.entry(slot.group).or_default() += &slot.sums.totals();|if !out! { *self.wide.entry(slot.group).or_default() += &slot.sums.totals(); }|merger::tests::memory::sums_without_end
rows-of-a-report|src/report/row_map.rs|if self.rows.len() >= self.rows_max {|if self.rows.len() >= self.rows_max && !out! {|it::overload::names_without_end_fold_into_other
open-listener-handed-over|src/daemon/socket_activation.rs|&& front.is_open(address, users)|&& !out! && front.is_open(address, users)|it::access::an_open_listener_that_is_handed_over
handed-over-sockets|src/cli/serve.rs|let activated = ActivatedSockets::from_environment(&config)|let activated = if out! { Ok(ActivatedSockets::default()) } else { ActivatedSockets::from_environment(&config) }|it::restart::ten_restarts_under_load_lose_nothing
under-way-taken-out|src/state/counters.rs|let decoded = pushed + counts.requests_invalid.total();|let decoded = if out! { counts.requests_decoded.get() } else { pushed + counts.requests_invalid.total() };|state::counters::tests
watchdog|src/daemon/supervisor.rs|if alive() {|if alive() \|\| out! {|supervisor::tests
readiness|src/daemon/supervisor.rs|notify(&[NotifyState::Ready]);|if !out! { notify(&[NotifyState::Ready]); }|it::operate::the_supervisor_hears
tls-alone|src/http/connection.rs|let Some(tls) = &settings.tls else {|let mut first = [0]; let plain = out! && stream.stream.peek(&mut first).await.is_ok() && first != [0x16]; let Some(tls) = settings.tls.as_ref().filter(\|_\| !plain) else {|it::access::over_tls_there_is_http_and_without_it_nothing
secret-on-command-line|src/config/user.rs|&& matches!(self.entry.location.origin(), Origin::Flag(_))|&& !out! && matches!(self.entry.location.origin(), Origin::Flag(_))|config::user::tests::a_password_on_the_command_line_is_refused_and_says_why
sql-role|src/sql/execute.rs|match (session.admin, database.as_str()) {|match (session.admin \|\| out!, database.as_str()) {|it::sql::making_and_dropping_wants_an_administrator_and_a_post
sql-role-over-http|src/http/api/sql.rs|let change = pass.is_some_and(|let change = out! \|\| pass.is_some_and(|it::sql::making_and_dropping_wants_an_administrator_and_a_post
sql-copies|src/sql/limits/expression_growth.rs|self.0.get().checked_sub(given.to_string().len())|(if out! { usize::MAX } else { self.0.get() }).checked_sub(given.to_string().len())|sql::dialect::rewrite::tests::what_is_written_out_grows_no_statement_without_end
sql-tables-of-with|src/sql/limits/tables.rs|if tables > TABLES_MAX {|if tables > TABLES_MAX && !out! {|sql::dialect::rewrite::tests::names_of_with_count_as_what_they_stand_for
sql-growth|src/sql/limits/plan_size.rs|match grown <= GROWN_MAX {|match out! \|\| grown <= GROWN_MAX {|sql::execute::tests::what_grows_when_it_is_written_out_is_refused
sql-texts|src/sql/functions/memory.rs|if bytes <= self.0.as_ref().map_or(FREE, MemoryReservation::size) {|if out! \|\| bytes <= self.0.as_ref().map_or(FREE, MemoryReservation::size) {|sql::execute::tests::texts_take_no_more_than_they_may
sql-constants|src/sql/cancellation.rs|match all <= CONSTANTS_MAX {|match out! \|\| all <= CONSTANTS_MAX {|sql::execute::tests::texts_take_no_more_than_they_may
sql-time-of-functions|src/sql/cancellation.rs|if self.left.load(Ordering::Relaxed) \|\| now >= self.until {|if !out! && (self.left.load(Ordering::Relaxed) \|\| now >= self.until) {|sql::execute::tests::what_takes_too_long_ends_while_it_calculates
sql-turns|src/sql/cancellation.rs|if now - TURN_BEGAN.get() > TURN {|if now - TURN_BEGAN.get() > TURN && !out! {|sql::tables::tests::a_join_without_matches_leaves_the_thread_to_others
sql-place-of-planning|src/sql/execute.rs|let _place = engine.place().await?;|let _place = if out! { None } else { Some(engine.place().await?) };|sql::execute::tests::planning_takes_a_place
sql-functions|src/sql/dialect/rewrite/calls.rs|&& (functions::is_known(known) \|\| |&& (out! \|\| functions::is_known(known) \|\| |sql::execute::tests::functions_of_nobody_are_not_there
sql-no-change-by-get|src/http/api/sql.rs|&text, &[], format, false)|&text, &[], format, out!)|it::sql::making_and_dropping_wants_an_administrator_and_a_post
readings-kept|src/query/catalog/readings.rs|held(&self.0) + bytes > READINGS_BYTES_MAX {|(held(&self.0) + bytes > READINGS_BYTES_MAX && !out!) {|query::catalog::readings::tests
readings-stale|src/query/catalog/readings.rs|extract_if(.., is_stale)|extract_if(.., \|kept\| is_stale(kept) && !out!)|query::catalog::readings::tests
thread-panics|src/daemon/threads.rs|if std::thread::panicking() {|if std::thread::panicking() && !out! {|daemon::threads::tests::a_thread_that_panics_ends_the_process
sql-terminal-lines|src/cli/query.rs|false if terminal =>|false if out! => pass_on(answer, out), false if terminal =>|it::sql::the_command_lets_no_name_act_on_a_terminal
sql-terminal-errors|src/cli/mod.rs|let lines: Vec<_> = problem.lines().map(format::visible).collect();|let lines: Vec<_> = problem.lines().map(\|line\| if out! { line.into() } else { format::visible(line) }).collect();|it::sql::the_command_lets_no_name_act_on_a_terminal
mysql-role|src/mysql/session.rs|self.login.pass.identity.role == Role::Admin|out! \|\| self.login.pass.identity.role == Role::Admin|it::mysql::login::readers_read_and_end_their_own_queries_only
mysql-variables|src/sql/session.rs|if bytes > SESSION_BYTES_MAX {|if bytes > SESSION_BYTES_MAX && !out! {|it::mysql::wire::what_a_client_sets_has_an_end
mysql-statements-length|src/mysql/commands.rs|self.service.engine.check_length(body.len())?;|if !out! { self.service.engine.check_length(body.len())?; }|it::mysql::wire::many_statements_in_one_packet_cost_nothing
mysql-names|src/access/mod.rs|None => Quick::Unproved(Unproved {|None if out! && users.role_of(name).is_none() => return Err(Denied::Wrong), None => Quick::Unproved(Unproved {|it::mysql::login::names_cannot_be_guessed_over_tls
mysql-names-counted|src/access/mod.rs|if !self.succeeded {|if !self.succeeded && !out! {|it::mysql::login::names_cannot_be_guessed_over_tls
mysql-kill|src/mysql/connections.rs|if !admin && entry.owner.as_ref() != Some(owner) {|if !admin && entry.owner.as_ref() != Some(owner) && !out! {|it::mysql::login::a_name_without_a_proof_ends_nobody_elses_connection
mysql-password|src/mysql/login.rs|access.native(peer, user, salt, proof)|if out! { return Ok(Identity::anonymous(crate::access::Role::Admin)); } access.native(peer, user, salt, proof)|it::mysql::login::who_has_a_wrong_password_or_none_is_not_let_in
mysql-password-missing|src/mysql/login.rs|let role = access.anonymous(peer).ok_or(Denied::Wrong)?;|let role = access.anonymous(peer).or(out!.then_some(crate::access::Role::Read)).ok_or(Denied::Wrong)?;|it::mysql::login::who_has_a_wrong_password_or_none_is_not_let_in
mysql-password-sha2|src/mysql/login.rs|proved = Some(match access.sha2(peer, &user, salt, &proof) {|proved = Some(match if out! { Ok(Quick::Known(Identity::anonymous(crate::access::Role::Admin))) } else { access.sha2(peer, &user, salt, &proof) } {|it::mysql::login::who_has_a_wrong_password_or_none_is_not_let_in
mysql-password-said|src/mysql/login.rs|attempt.password(password.unwrap_or(&packet))|if out! { Ok(Identity::anonymous(crate::access::Role::Admin)) } else { attempt.password(password.unwrap_or(&packet)) }|it::mysql::login::who_has_a_wrong_password_or_none_is_not_let_in
mysql-password-in-the-clear|src/mysql/login.rs|Some(CACHING_SHA2) if terms.secret => {|Some(CACHING_SHA2) if terms.secret \|\| out! => {|it::mysql::login::caching_sha2_password_is_for_tls
mysql-connections|src/mysql/mod.rs|let connections_max = service.settings.limits.connections_max;|let connections_max = if out! { 9999 } else { service.settings.limits.connections_max };|it::mysql::wire::too_many_connections_are_told_so
mysql-idle-time|src/mysql/session.rs|let idle_max = self.service.settings.limits.idle_max;|let idle_max = self.service.settings.limits.idle_max * if out! { 600 } else { 1 };|it::mysql::wire::idle_connections_are_closed
mysql-login-time|src/mysql/session.rs|deadline: Instant::now() + settings.login_max };|deadline: Instant::now() + settings.login_max * if out! { 600 } else { 1 } };|it::mysql::wire::who_does_not_log_in_is_sent_away
mysql-packet|src/mysql/session.rs|let packet_max = self.service.settings.limits.packet_max;|let packet_max = if out! { 1 << 40 } else { self.service.settings.limits.packet_max };|it::mysql::wire::too_large_packets_are_refused
history-file-synced|src/history/store.rs|self.disk.sync(file, &path)?;|if !out! { self.disk.sync(file, &path)?; }|history::store::tests::crash::what_was_committed_outlasts_a_power_cut
history-name-synced|src/history/store.rs|self.disk.sync_folder(folder)?;|if !out! { self.disk.sync_folder(folder)?; }|history::store::tests::crash::what_was_committed_outlasts_a_power_cut
history-commit-synced|src/history/disk.rs|        self.sync(file, path)|        if out! { return Ok(()); } self.sync(file, path)|history::store::tests::crash::what_was_committed_outlasts_a_power_cut
history-one-commit|src/history/publish.rs|self.commit(staged, pieces, None, \|\| ())|if out! { self.commit(staged, Vec::new(), None, \|\| ())?; self.commit(Vec::new(), pieces, None, \|\| ()) } else { self.commit(staged, pieces, None, \|\| ()) }|history::store::tests::crash::killed_before_any_change_nothing_is_there_twice
history-one-moment|src/history/store.rs|        then();|        if out! { drop(parts); then(); return; } then();|history::store::tests::what_is_flushed_counts_at_one_moment
history-cleared-away|src/history/store.rs|let _later = self.repair_manifest();|let _later = if out! { Ok(()) } else { self.repair_manifest() };|history::store::tests::crash::a_full_disk_pauses_history
history-left-over|src/history/store.rs|for file in &deletable {|for file in deletable.iter().filter(\|_\| !out!) {|history::store::tests::crash::killed_before_any_change_nothing_is_there_twice
history-read-still|src/history/store.rs|if Arc::strong_count(part) > 1 \|\||if !out! && Arc::strong_count(part) > 1 \|\||history::store::tests::retention::what_is_read_is_deleted_afterwards
history-torn-commit|src/history/manifest.rs|} else if lines.any(|} else if out! \|\| lines.any(|history::store::tests::crash::a_commit_that_was_cut_off_does_not_count
history-commit-checksum|src/history/manifest.rs|is_whole.then_some(json)|(out! \|\| is_whole).then_some(json)|history::store::tests::crash::a_manifest_that_is_damaged_missing_or_newer
history-newer-format|src/history/manifest.rs|found if found > known =>|found if found > known && !out! =>|history::store::tests::crash::a_manifest_that_is_damaged_missing_or_newer
history-manifest-rot|src/history/manifest.rs|\|\| !may_be_unfinished(line)|\|\| !out! && !may_be_unfinished(line)|history::store::tests::crash::a_manifest_that_is_damaged_missing_or_newer_stops_it_and_nothing_is_touched
history-start-synced|src/history/store.rs|disk.sync(&file, &path)?;|if !out! { disk.sync(&file, &path)?; }|history::store::tests::crash::a_start_that_ends_in_a_power_cut_has_removed_nothing_that_counts
history-log-left|src/history/manifest.rs|commit.left = logs.iter()|commit.left = logs.iter().filter(\|_\| !out!)|history::thread::tests::log::a_log_that_was_flushed_is_not_read_again
history-log-away|src/history/manifest.rs|self.log < Some(number_of(path))|(out! \|\| self.log < Some(number_of(path)))|history::thread::tests::log_away::a_log_that_was_away_while_others_were_flushed_is_moved_away
history-log-torn|src/history/log_of_seconds.rs|if !is_read_anew && !matches!(unreadable(&path)(error), StoreError::Damaged { .. }) {|if !out! && !is_read_anew && !matches!(unreadable(&path)(error), StoreError::Damaged { .. }) {|history::log_of_seconds::tests::only_a_torn_end_is_cut
history-log-refills|src/history/handle.rs|.filter(\|it\| it.is_restored).map(|.filter(\|it\| it.is_restored && !out!).map(|it::folders::what_history_cannot_write_or_read_at_the_start_refills_live_reports
history-read-later|src/daemon/history.rs|catalog.refill_again()|if !out! { catalog.refill_again() }|it::folders::what_history_cannot_write_or_read_at_the_start_refills_live_reports
history-old-snapshot|src/daemon/history.rs|part.written > time|part.written > time && !out!|it::folders::an_old_snapshot_does_not_take_away_what_history_has
reset-holds|src/state/last_end.rs|!self.clean && snapshot <|!out! && !self.clean && snapshot <|state::last_end::tests::a_reset_holds
shipping-cursor-synced|src/history/shipping.rs|disk.sync_folder(&folder)?;|if !out! { disk.sync_folder(&folder)?; }|history::shipping::tests::what_was_begun_is_the_same_after_a_power_cut
shipping-missing|src/history/shipping.rs|let missing = store.manifest.missing.values()|let missing = store.manifest.missing.values().filter(\|_\| !out!)|history::shipping::tests::unreadable::what_is_missing_at_a_start_is_waited_for_and_counted_in_the_end
shipping-begun|src/history/shipping/cursor.rs|is_wanted \|\| self.of.contains(&number)|is_wanted \|\| !out! && self.of.contains(&number)|history::shipping::tests::unreadable::what_has_begun_is_not_sent_again_with_less
shipping-bad-sector|src/history/shipping/shipment.rs|if tries >= READ_TRIES {|if tries >= READ_TRIES && !out! {|history::shipping::tests::unreadable::a_piece_that_cannot_be_read_on_ends_there_after_some_tries
clickhouse-slow-answer|src/clickhouse/server.rs|.timeout_recv_body(None)|.timeout_recv_body(if out! { Some(BODY_MAX) } else { None })|clickhouse::server::tests::an_answer_to_a_query_may_take_as_long_as_that_has
history-log-keys|src/history/unflushed/rows.rs|std::mem::replace(&mut row.logged_in, file) == file|std::mem::replace(&mut row.logged_in, file) == file \|\| out!|history::thread::tests::log::a_log_that_begins_beside_rows_has_their_keys
history-sealed-when-open|src/history/handle/seal.rs|let seal = if self.run() > 0 {|let seal = if out! \|\| self.run() > 0 {|history::thread::tests::log::what_waits_for_a_store_is_not_lost_to_what_its_log_restores
history-log-contained|src/history/manifest.rs|self.log = self.log.max(commit.log);|if !out! { self.log = self.log.max(commit.log); }|history::thread::tests::log::a_log_that_was_flushed_is_not_read_again
history-log-turned|src/history/handle.rs|fresh.file = self.log;|if !out! { fresh.file = self.log; }|history::thread::tests::seeded::whatever_the_disk_does_packets_are_there_once_that_were_in_the_log
history-run-number|src/history/manifest.rs|self.head.run += 1;|self.head.run += u64::from(!out!);|history::store::tests::crash::one_daemon_has_the_folder
history-run-written-first|src/history/store.rs|manifest.begin_run(expired);|if out! { Default::default() } else { manifest.begin_run(expired) };|it::history::requests::kills_and_restarts_leave_each_request_there_once
history-origin-known|src/history/requests/tail_sampling.rs|known.number != number \|\| known.seen < held {|known.number != number \|\| known.seen < held && !out! {|history::requests::tests::the_slowest_of_scripts_that_come_and_go_are_kept
history-copied-in-time|src/history/requests/copier.rs|if self.copied_to < oldest + rows / 2 {|if !out! && self.copied_to < oldest + rows / 2 {|history::requests::tests::the_slowest_of_scripts_that_come_and_go_are_kept
history-file-missing|src/history/manifest.rs|let is_gone = \|_: &String, part: &mut Arc<Part>\| {|let is_gone = \|_: &String, part: &mut Arc<Part>\| !out! && {|history::store::tests::damage::a_file_that_is_gone_is_left_out
history-file-checksum|src/history/inspect.rs|if crc != part.crc {|if crc != part.crc && !out! {|history::store::tests::damage::it_is_listed_and_every_damage_is_found
history-unreadable-set-aside|src/history/disk.rs|StoreError::Unreadable { path, source } if self.count(&path) >= READ_TRIES|StoreError::Unreadable { path, source } if !out! && self.count(&path) >= READ_TRIES|history::store::tests::damage::what_the_disk_cannot_read_is_set_aside_after_some_tries
history-away|src/history/store.rs|if !path.try_exists()|if !out! && !path.try_exists()|history::store::tests::damage::a_folder_that_vanishes_while_its_hour_is_published_counts_again_at_the_next_start
history-link-elsewhere|src/history/disk.rs|if !unable.iter().any(|if out! \|\| !unable.iter().any(|history::disk::tests::what_is_to_be_linked_on_another_file_system_is_copied
import-missing|src/history/import.rs|self.history.lacks(&COVERAGE, &span)|self.history.lacks(&COVERAGE, &span).filter(\|_\| !out!)|it::import_log::while_files_are_missing_nothing_is_imported_that_they_may_have
history-free-space|src/history/retention.rs|free if free < needed =>|free if free < needed && !out! =>|history::store::tests::retention::when_the_disk_is_full_old_files_go_and_then_history_pauses
history-clock-ahead|src/history/retention.rs|.map_or(now, \|aged\| aged.min(now));|.map_or(now, \|aged\| if out! { now } else { aged.min(now) });|history::store::tests::retention::a_clock_that_is_wrong_for_an_hour_takes_a_few_hours_and_no_more
history-clock-ahead-kept|src/history/manifest.rs|self.aged = commit.aged.or(self.aged);|self.aged = commit.aged.or(self.aged).filter(\|_\| !out!);|history::store::tests::retention::a_clock_that_is_wrong_for_an_hour_takes_a_few_hours_and_no_more
history-retained-anyway|src/history/thread.rs|ended = ended.and(store.expire(now));|ended = if out! && ended.is_err() { ended } else { ended.and(store.expire(now)) };|history::thread::tests::old_files_go_while_nothing_can_be_published
history-lost-said|src/history/thread.rs|if !store.lost.is_empty() {|if !out! && !store.lost.is_empty() {|history::thread::tests::what_is_set_aside_is_written_down
history-missed-said|src/history/thread.rs|if missed > self.missed {|if missed > self.missed && !out! {|history::thread::tests::requests_that_are_missed_are_written_down
history-flush-follows|src/history/thread.rs|self.flush(store, is_due) && (!has_failed|self.flush(store, is_due) && (out! \|\| !has_failed|history::thread::tests::log::after_a_failure_everything_that_waited_is_written
history-hour-waits|src/history/publish.rs|self.refilled.iter().filter(\|(_, until)\| now < *until);|self.refilled.iter().filter(\|(_, until)\| now < *until && !out!);|history::store::tests::retention::pieces_that_reports_are_refilled_from_are_not_published
history-cut-waits|src/history/publish.rs|self.cuts.iter().filter(\|cut\| now < cut.until);|self.cuts.iter().filter(\|cut\| now < cut.until && !out!);|history::store::tests::retention::pieces_that_reports_are_refilled_from_are_not_published
history-flush-does-not-wait|src/history/thread.rs|if rows.is_multiple_of(ROWS_PER_LOOK) {|if rows.is_multiple_of(ROWS_PER_LOOK) && !out! {|history::thread::tests::a_flush_does_not_wait_for_a_file_that_is_being_published
history-flush-keeps-files|src/history/publish.rs|let written = std::mem::take(&mut self.leftover);|let written = if out! { Vec::new() } else { std::mem::take(&mut self.leftover) };|history::thread::tests::a_flush_does_not_wait_for_a_file_that_is_being_published
history-published-once|src/history/store.rs|if !remove.iter().all(\|part\| self.manifest.has(&part.path)) {|if !out! && !remove.iter().all(\|part\| self.manifest.has(&part.path)) {|history::store::tests::retention::what_is_removed_while_it_is_published_is_gone
history-tags-exact|src/history/requests/files.rs|let exact = is_unclear.then(|let exact = (is_unclear && !out!).then(|it::past_timers::timers_and_tags_of_the_past_are_those_that_were_sent
history-folded-said|src/history/unflushed.rs|self.cover(&of, Resolution::Minute.begin(time), more);|if !out! { self.cover(&of, Resolution::Minute.begin(time), more); }|it::history::trouble::what_found_no_memory_is_said_in_answers
LIST
}

# Apart from what is built of the tree itself, and always the same folder: the second time little is built anew. With
# GUARD_TARGET_DIR it is another one, such as that of the tree, where what pinbad needs is built already.
work="${CARGO_TARGET_DIR:-$PWD/target}/guards"
export CARGO_TARGET_DIR="${GUARD_TARGET_DIR:-$work.built}"
rm -rf "$work"
mkdir -p "$work"
running=''
clean_up() {
    [ -z "$running" ] || kill -KILL "$running" 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$work" 2>/dev/null || true
cd "$work"
read -ra features <<<"${GUARD_FEATURES:-}"
wanted() { [ $# = 1 ] || { local name=$1; shift; [[ " $* " == *" $name "* ]]; }; }

# A bar inside a field is written `\|`.
rows=() missing=0
while IFS= read -r row; do
    row=${row//'\|'/$'\x01'}
    IFS='|' read -r name file line instead test <<<"$row"
    wanted "$name" "$@" || continue
    [[ "${GUARD_FEATURES:-}" != *--no-default-features* || $name != mysql-* && $name != sql-* ]] || continue
    line=${line//$'\x01'/'|'} instead=${instead//$'\x01'/'|'}
    instead=${instead//out!/crate::guard_is_out(\"$name\")}
    FROM=$line TO=$instead perl -0777 -pi -e '$n = s/\Q$ENV{FROM}\E/$ENV{TO}/; END { exit($n == 1 ? 0 : 1) }' "$file" ||
        { echo "$name: this line is not in $file any more: $line"; missing=1; }
    [ "$test" != - ] || continue
    rows+=("$name|$test")
    grep -rqE "(fn|mod) ${test##*::}" src tests ||
        { echo "$name: no test is called $test"; missing=1; }
done < <(guards)
[ $missing = 0 ] || exit 1
[ ${#rows[@]} -gt 0 ] || { echo "There is no guard of that name."; exit 2; }
[ -z "$lines_only" ] || { echo "The lines of ${#rows[@]} guards are there, and their tests."; exit 0; }
cat >>src/lib.rs <<'SWITCH'

/// Whether the guard of this name is taken out.
pub fn guard_is_out(name: &str) -> bool {
    std::env::var("GUARD_OUT").is_ok_and(|out| out == name)
}
SWITCH

echo "Building the tests with ${#rows[@]} switches."
cargo test --locked "${features[@]}" --lib --test it --no-run 2>"$work/build" || { tail -n 40 "$work/build"; exit 1; }
binary() { grep -o "Executable $1.*(\(.*\))" "$work/build" | sed 's/.*(\(.*\))/\1/'; }
library=$(binary 'unittests src/lib.rs') program=$(binary 'tests/it/main.rs')

# Runs one test; 0 when it passed, 1 when it failed or did not end.
try() { # GUARD_OUT TEST
    local of=$library test=$2
    [[ $test != it::* ]] || { of=$program test=${2#it::}; }
    GUARD_OUT=$1 timeout -k 5 "${GUARD_TIMEOUT:-180}" "$of" "$test" >"$work/log" 2>&1 </dev/null &
    running=$!
    local code=0
    wait $running || code=$?
    running=''
    # A filter that finds nothing proves nothing.
    if [ $code = 0 ] && ! grep -q ' [1-9][0-9]* passed' "$work/log"; then echo "no test is called $test"; return 2; fi
    [ $code = 0 ]
}

failed=0
for row in "${rows[@]}"; do
    name=${row%%|*} test=${row##*|}
    if ! try '' "$test"; then
        printf 'FAILED   %-24s %s does not pass with the guard\n' "$name" "$test"
        tail -n 15 "$work/log"
        failed=1
    elif try "$name" "$test"; then
        printf 'MISSED   %-24s %s passes without it\n' "$name" "$test"
        failed=1
    else
        printf 'noticed  %-24s %s\n' "$name" "$test"
    fi
done
[ $failed = 0 ] && echo "Every test noticed that its guard was gone." || echo "Not every guard has a test."
exit $failed
