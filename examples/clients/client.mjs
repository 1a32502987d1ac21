#!/usr/bin/env node
// A complete Headgate client in JavaScript, with Node 18 or newer and no packages. See README.md in this folder.
//
//   node client.mjs lock RESOURCE COMMAND...   run a command while holding an exclusive lock
//   node client.mjs work JOB COMMAND...        run a command on each chunk of a job, until nothing is left
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { constants, hostname, userInfo } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

const { HEADGATE_SERVER: server, HEADGATE_API_TOKEN: secret } = process.env;
const name = process.env.HEADGATE_CLIENT || `${userInfo().username}@${hostname()}`;
const lease = Number(process.env.HEADGATE_LEASE || 30); // seconds; renewed three times as often
const patience = Number(process.env.HEADGATE_PATIENCE || 60); // seconds for which a request is retried
const REFUSED = 75, LOST = 76, UNAVAILABLE = 69;
let running = null, stopped = false;

// A client that is asked to stop stops its command, and then releases its lock or reports the interruption.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => { stopped = true; running?.kill("SIGTERM"); });
}

const now = () => performance.now() / 1000;
const say = (text) => process.stderr.write(`client.mjs: ${text}\n`);

// Sends a request, and again while the service is away, for so many seconds at most. Status 0: no answer. All repeats
// carry one Idempotency-Key: they have no second effect.
async function ask(method, path, body, seconds = patience) {
  const until = now() + seconds;
  const headers = { "Authorization": `Bearer ${secret}`, "Idempotency-Key": randomUUID() };
  if (body) headers["Content-Type"] = "application/json";
  for (let tries = 1; ; tries++) {
    let status = 0, found = {}, pause = 1;
    try {
      // Each attempt has a deadline of its own: 10 seconds.
      const answer = await fetch(server + path, {
        method, headers, body: body && JSON.stringify(body), signal: AbortSignal.timeout(10_000),
      });
      status = answer.status;
      pause = Number(answer.headers.get("Retry-After")) || 1;
      const text = await answer.text();
      found = text ? JSON.parse(text) : {};
    } catch {
      status = 0; // It could not be reached, or its answer was cut off.
    }
    // 503: its store does not answer. key-in-use: the first attempt, whose answer was lost, is still running.
    const again = [0, 429, 503].includes(status) || found.type === "urn:headgate:key-in-use";
    if (!again) return { status, found, tries };
    if (now() + pause > until) return { status: 0, found: { detail: "the service does not answer" }, tries };
    await sleep(pause * 1000);
  }
}

// Runs the command while its lease is renewed. Returns its exit code; null if the lease was lost.
async function hold(path, token, command, variables) {
  let renewed = now(), lost = false;
  running = spawn(command[0], command.slice(1), { stdio: "inherit", env: { ...process.env, ...variables } });
  const ended = new Promise((resolve) => {
    running.on("exit", (code, signal) => resolve(code ?? 128 + constants.signals[signal]));
    running.on("error", () => resolve(127));
  });
  const over = new AbortController();
  const keeping = (async () => {
    while (!lost) {
      try {
        await sleep((lease / 3) * 1000, null, { signal: over.signal });
      } catch {
        return; // The command has ended.
      }
      const asked = now();
      const { status, found } = await ask("POST", path, { token, lease }, renewed + lease - asked);
      if (over.signal.aborted) return;
      if (status === 200) {
        renewed = asked; // The lease counts from before the request: never later than the service counts.
      } else {
        lost = true;
        say(`the lease was lost: ${found.detail}`);
        running.kill("SIGTERM");
      }
    }
  })();
  const code = await ended;
  running = null;
  over.abort();
  await keeping;
  return lost ? null : code;
}

async function lock(resource, ...command) {
  const { status, found } = await ask("POST", "/v1/locks", { client: name, resource, lease });
  if (status !== 201) {
    say(found.detail);
    return status === 409 ? REFUSED : status === 0 ? UNAVAILABLE : 2;
  }
  const { id, token } = found.locks[0];
  const code = await hold(`/v1/locks/${id}/renew`, token, command, { HEADGATE_TOKEN: token });
  if (code === null) return LOST; // It is not ours any more: nothing to release.
  const released = await ask("DELETE", `/v1/locks/${id}?token=${token}`);
  if (released.status === 0) say("not released: the lease will expire");
  // A repeat finds nothing to release if the answer to the first attempt was lost.
  if (released.status === 409 && released.tries === 1) {
    say(released.found.detail);
    return LOST;
  }
  return code;
}

async function work(job, ...command) {
  let result = 0;
  for (;;) {
    const path = `/v1/jobs/${encodeURIComponent(job)}`;
    const { status, found: claim } = await ask("POST", `${path}/next`, { worker: name, lease });
    if (status === 204) return result; // Nothing left to do.
    if (status !== 200) {
      say(claim.detail);
      return status === 0 ? UNAVAILABLE : 2;
    }
    const { dataid, token } = claim;
    const chunk = `${path}/chunks/${encodeURIComponent(dataid)}`;
    const variables = { HEADGATE_DATAID: dataid, HEADGATE_TOKEN: token };
    const code = await hold(`${chunk}/heartbeat`, token, command, variables);
    if (code === null) {
      result = 1;
      continue;
    }
    const [outcome, report] = stopped // No failure: the chunk is claimable again at once.
      ? ["interrupt", { token, message: "the worker was stopped" }]
      : code ? ["fail", { token, message: `exit code ${code}` }] : ["success", { token }];
    if (outcome === "fail") result = 1;
    const reported = await ask("POST", `${chunk}/${outcome}`, report);
    if (reported.status !== 204) { // Stale: somebody else has it.
      say(`${dataid}: ${reported.found.detail}`);
      if (reported.status === 0) return UNAVAILABLE;
      result = 1;
    }
    if (stopped) return 143;
  }
}

const [what, ...words] = process.argv.slice(2);
const act = { lock, work }[what];
if (!server || !secret || !act || words.length < 2) {
  say("usage: client.mjs lock RESOURCE COMMAND... | work JOB COMMAND... (HEADGATE_SERVER and HEADGATE_API_TOKEN are set)");
  process.exit(2);
}
process.exitCode = await act(...words);
