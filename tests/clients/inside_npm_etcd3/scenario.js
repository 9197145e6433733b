// Runs a plan on npm's etcd3, which is grpc-js and protobufjs: it writes out the zeros that others leave away.
//
// Usage: node scenario.js ADDRESS PLAN FOLDER [limit], where FOLDER has the client among its node_modules. It takes what
// comes, however large; with `limit`, what the client takes by default. Each step's answer is one JSON line on standard output. After the line of a step aside it waits for a line of standard input. Its builders
// are used where they can say what a step says, and its bare services elsewhere.

"use strict";

const fs = require("node:fs");
const path = require("node:path");
const readline = require("node:readline");
const { createRequire } = require("node:module");

const [address, planFile, folder, limit] = process.argv.slice(2);
const { Etcd3 } = createRequire(path.join(path.resolve(folder), "here.js"))("etcd3");

const COMPARED = {
  VERSION: ["Version", "version"],
  CREATE: ["Create", "create_revision"],
  MOD: ["Mod", "mod_revision"],
  VALUE: ["Value", "value"],
  LEASE: ["Lease", "lease"],
};
const RESULTS = { EQUAL: "==", NOT_EQUAL: "!=", GREATER: ">", LESS: "<" };

class Runner {
  constructor() {
    const grpcOptions = limit ? {} : { "grpc.max_receive_message_length": -1 };
    this.client = new Etcd3({ hosts: `http://${address}`, grpcOptions });
    this.shown = new Map();
    this.kept = new Map();
    this.watches = new Map();
    this.locks = new Map();
  }

  async step(step) {
    try {
      const answer = plain(await this[step.do](step));
      this.take(step, answer);
      return { answer };
    } catch (error) {
      if (!error.message || error instanceof TypeError) throw error;
      return { error: [error.constructor.name, error.message] };
    }
  }

  put(step) {
    return this.putBuilder(step).exec();
  }

  range(step) {
    return this.rangeBuilder(step).exec();
  }

  delete(step) {
    return this.deleteBuilder(step).exec();
  }

  txn(step) {
    const [first, ...rest] = step.compare;
    if (!first || step.compare.some((compare) => compare.range_end)) {
      return this.bareTxn(step).then((request) => this.client.kv.txn(request));
    }
    const builder = this.client.if(...this.comparison(first));
    rest.forEach((compare) => builder.and(...this.comparison(compare)));
    builder.then(...step.success.map((part) => this.operation(part)));
    builder.else(...step.failure.map((part) => this.operation(part)));
    return builder.commit();
  }

  grant(step) {
    return this.client.leaseClient.leaseGrant({ ID: step.lease, TTL: step.ttl });
  }

  revoke(step) {
    return this.client.leaseClient.leaseRevoke({ ID: step.lease });
  }

  time_to_live(step) {
    return this.client.leaseClient.leaseTimeToLive({ ID: step.lease, keys: true });
  }

  async keepalive(step) {
    if (!this.keepalives) {
      this.keepalives = await this.client.leaseClient.leaseKeepAlive();
      this.keepalives.on("data", (answer) => this.kept_alive(answer));
    }
    const answer = new Promise((resolve) => {
      this.kept_alive = resolve;
    });
    this.keepalives.write({ ID: step.lease });
    return answer;
  }

  compact(step) {
    return this.client.kv.compact(this.options(step));
  }

  async watch(step) {
    const { prev_kv: previous, start_revision: start } = this.options(step);
    const builder = this.client.watch().inRange({ start: data(step.key), end: data(step.range_end) });
    if (previous) builder.withPreviousKV();
    if (start) builder.startRevision(String(start));
    const watcher = builder.watcher();
    const watch = { watcher, events: [], error: null, changed: () => {} };
    watcher.on("data", (response) => {
      watch.events.push(...response.events.map(plain));
      watch.changed();
    });
    watcher.on("error", (error) => {
      watch.error = error;
      watch.changed();
    });
    await new Promise((resolve) => watcher.once("connected", resolve));
    this.watches.set(step.name, watch);
    return {};
  }

  async events(step) {
    const watch = this.watches.get(step.name);
    const [key, value] = [step.key, step.value].map((text) => data(text).toString("base64"));
    const place = () => watch.events.findIndex((event) => event.kv.key === key && event.kv.value === value);
    while (place() < 0) await changeOf(watch);
    return watch.events.splice(0, place() + 1);
  }

  async canceled(step) {
    const watch = this.watches.get(step.name);
    this.watches.delete(step.name);
    while (!watch.error) await changeOf(watch);
    throw watch.error;
  }

  async unwatch(step) {
    await this.watches.get(step.name).watcher.cancel();
    this.watches.delete(step.name);
  }

  async lock(step) {
    const lock = this.client.lock(step.name).ttl(60);
    this.locks.set(step.name, lock);
    await lock.acquire();
  }

  async unlock(step) {
    await this.locks.get(step.name).release();
    this.locks.delete(step.name);
  }

  // ---- steps as the builders have them ------------------------------------------------------------------------------

  putBuilder(step) {
    const { prev_kv: previous, ignore_value: touch, ignore_lease: keep } = step.options;
    const builder = this.client.put(data(step.key)).value(data(step.value));
    if (step.lease !== "0") builder.lease(step.lease);
    if (keep) builder.ignoreLease();
    // What it has methods for sends at once.
    if (previous) builder.request.prev_kv = true;
    if (touch) builder.request.ignore_value = true;
    return builder;
  }

  rangeBuilder(step) {
    const { sort_order: order, sort_target: target, ...options } = this.options(step);
    const range = { start: data(step.key), end: data(step.range_end) };
    const builder = step.range_end ? this.client.getAll().inRange(range) : this.client.get(data(step.key));
    if (order && step.range_end) builder.sort(capital(target), capital(order));
    Object.assign(builder.request, options);
    return builder;
  }

  deleteBuilder(step) {
    const range = { start: data(step.key), end: data(step.range_end) };
    const builder = step.range_end ? this.client.delete().range(range) : this.client.delete().key(data(step.key));
    Object.assign(builder.request, step.options);
    return builder;
  }

  comparison(compare) {
    const [column] = COMPARED[compare.target];
    return [data(compare.key), column, RESULTS[compare.result], this.compared(compare)];
  }

  compared(compare) {
    return compare.target === "VALUE" ? data(compare.value) : this.number(compare.value);
  }

  operation(step) {
    const builders = { put: "putBuilder", range: "rangeBuilder", delete: "deleteBuilder" };
    const name = builders[step.do];
    if (name) return this[name](step);
    return { op: async () => ({ request_txn: await this.bareTxn(step) }) };
  }

  async bareTxn(step) {
    const operations = (steps) => Promise.all(steps.map((part) => this.operation(part).op()));
    return {
      compare: step.compare.map((compare) => ({
        key: data(compare.key),
        range_end: data(compare.range_end),
        result: compare.result,
        target: compare.target,
        [COMPARED[compare.target][1]]: this.compared(compare),
      })),
      success: await operations(step.success),
      failure: await operations(step.failure),
    };
  }

  // ---- what is only known now ---------------------------------------------------------------------------------------

  options(step) {
    return Object.fromEntries(Object.entries(step.options).map(([name, value]) => [name, this.number(value)]));
  }

  number(given) {
    if (given === null || typeof given !== "object") return given;
    if ("kept" in given) return Number(this.kept.get(given.kept) ?? 0) + given.plus;
    const [name, key] = Object.entries(given)[0];
    return this.shown.get(key)?.[name === "shown_mod" ? "mod_revision" : "create_revision"] ?? 0;
  }

  take(step, answer) {
    if (step.keep) this.kept.set(step.keep, answer.header.revision);
    for (const kv of kvs(answer)) this.shown.set(Buffer.from(kv.key, "base64").toString("latin1"), kv);
  }
}

function* kvs(node) {
  if (node === null || typeof node !== "object") return;
  if (Number(node.mod_revision)) yield node;
  else for (const part of Object.values(node)) yield* kvs(part);
}

function plain(node) {
  if (Buffer.isBuffer(node)) return node.toString("base64");
  if (Array.isArray(node)) return node.map(plain);
  if (node === null || typeof node !== "object") return node;
  return Object.fromEntries(Object.entries(node).map(([name, value]) => [name, plain(value)]));
}

function changeOf(watch) {
  return new Promise((resolve) => {
    watch.changed = resolve;
  });
}

function data(text) {
  return Buffer.from(text, "latin1");
}

function capital(word) {
  return word[0] + word.slice(1).toLowerCase();
}

async function main() {
  const runner = new Runner();
  const input = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  for (const step of JSON.parse(fs.readFileSync(planFile, "utf8"))) {
    const line = step.do === "aside" ? { aside: step } : await runner.step(step);
    await new Promise((resolve) => process.stdout.write(JSON.stringify(line) + "\n", resolve));
    if (step.do === "aside") await input.next();
  }
  // The leases of its locks would be kept alive for ever.
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
