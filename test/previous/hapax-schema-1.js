// hapax as of e3ccd82, with schema 1: what may still be deployed when the next migration runs.
// Made by `node scripts/freeze-previous.ts e3ccd82 1`; never edited.
import { hash, randomFillSync, randomUUID } from "node:crypto";
import { dirname, resolve } from "node:path";
import { AsyncLocalStorage } from "node:async_hooks";
import { DatabaseSync, StatementSync } from "node:sqlite";
import { closeSync, openSync, realpathSync, statSync, statfsSync } from "node:fs";
// src/core/errors.ts
/** The one error class of hapax: branch on `code`, never on the message. */
var HapaxError = class extends Error {
	name = "HapaxError";
	code;
	fields;
	constructor(code, message, options = {}) {
		super(message, options.cause === void 0 ? void 0 : { cause: options.cause });
		this.code = code;
		this.fields = Object.freeze({ ...options.fields });
	}
};
/** Thrown by a handler: this message will never succeed; it goes to the failed store at once. */
var Permanent = class extends Error {
	name = "Permanent";
};
/** Thrown by a handler: try again, but not before this many milliseconds. */
var RetryAfter = class extends Error {
	name = "RetryAfter";
	delayMs;
	constructor(delayMs, message = `try again in ${delayMs} ms`, options) {
		super(message, options);
		this.delayMs = delayMs;
	}
};
/** Whether a value is a HapaxError with this code. */
function isHapaxError(error, code) {
	return isError(error) && error instanceof HapaxError && (code === void 0 || error.code === code);
}
/** What was thrown, as an Error. */
function asError$1(thrown) {
	if (isError(thrown)) return thrown;
	return new Error(`a handler threw ${describe(thrown)}`, { cause: thrown });
}
function isError(value) {
	try {
		return value instanceof Error;
	} catch {
		return false;
	}
}
function field(error, name) {
	try {
		return error[name];
	} catch {
		return;
	}
}
/** An error's message as it may be logged: a text in any case, without credentials. */
function messageOf(error) {
	return shown$1(field(error, "message"), MAX_MESSAGE);
}
const MAX_MESSAGE = 1e3;
const MAX_STACK = 2e3;
const MAX_CAUSES = 5;
/** Turns an error into what may be stored and shown. */
function recordError(thrown, depth = 0) {
	const error = asError$1(thrown);
	const code = field(error, "code");
	const cause = field(error, "cause");
	const stack = depth === 0 ? field(error, "stack") : void 0;
	return {
		name: shown$1(field(error, "name") ?? "Error", 100),
		message: messageOf(error),
		...typeof code === "string" || typeof code === "number" ? { code: shown$1(code, 100) } : {},
		...typeof stack === "string" && stack !== "" ? { stack: shown$1(stack, MAX_STACK) } : {},
		...isError(cause) && depth < MAX_CAUSES ? { cause: recordError(cause, depth + 1) } : {}
	};
}
/** Cut twice: what is thrown away need not be searched, and what was removed makes room. */
function shown$1(value, length) {
	return redact((typeof value === "string" ? value : describe(value)).slice(0, 4 * length)).slice(0, length);
}
/** `DB_PASSWORD=…`, `"accessToken":"…"`, `Authorization: Basic …`, also where the quotes are escaped. */
const NAMED_SECRETS = new RegExp(`\\b([\\w-]{0,40}?(?:password|passwd|pwd|passphrase|secret|token|credential|api[-_]?key|access[-_]?key|private[-_]?key|authorization)[\\w-]{0,40})(\\\\{0,4}["']?\\s{0,9}[=:]\\s{0,9})((?:bearer|basic|digest|token)\\s{1,9})?("[^"]*"|'[^']*'|[^\\s,;&]+)`, "gi");
/** `scheme://user:password@host`, whatever the password contains, and `scheme://token@host`. */
const URL_SECRETS = /\b([a-z][a-z0-9+.-]{0,30}:\/\/)(?:[^\s/@:]{0,200}:[^\s"'<>]{0,2000}|[^\s/?#"'<>]{0,2000})@/gi;
/** Removes credentials from a text: those in URLs, and values of what looks like a password, a token or a key. */
function redact(text) {
	return text.replace(URL_SECRETS, "$1***@").replace(NAMED_SECRETS, "$1$2***");
}
/** A value for an error message: short, on one line. */
function describe(value) {
	let text = "something that cannot be shown";
	try {
		text = typeof value === "string" ? JSON.stringify(value) : describeValue(value);
	} catch {}
	return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}
function describeValue(value) {
	if (typeof value === "function") return `function ${value.name || "(anonymous)"}`;
	if (typeof value === "bigint") return `${value}n`;
	if (typeof value === "object" && value !== null) {
		if (Array.isArray(value)) return `an array of ${value.length}`;
		if (value instanceof Uint8Array) return `${value.byteLength} bytes`;
		return `an object${value.constructor && value.constructor !== Object ? ` (${value.constructor.name})` : ""}`;
	}
	return String(value);
}
// src/core/options.ts
/** Fails with the one sentence form of hapax: "expected leaseMs to be a positive integer, got -1". */
function expected(name, what, got) {
	throw new HapaxError("invalid-option", `expected ${name} to be ${what}, got ${describe(got)}`, { fields: { option: name } });
}
/** Timers and settings of databases count milliseconds in 31 bits; this leaves room for what is added to them. */
const MAX_MS = 2e9;
/** A whole number above zero, or the default where it is not given. */
function positiveInteger(name, value, fallback) {
	if (value === void 0) return fallback;
	if (!Number.isSafeInteger(value) || value <= 0) expected(name, "a positive integer", value);
	if (value > 2e9) expected(name, `at most ${MAX_MS}`, value);
	return value;
}
/** A number of at least `least`, or the default where it is not given. */
function numberFrom(name, least, value, fallback) {
	if (value === void 0) return fallback;
	if (typeof value !== "number" || !Number.isFinite(value) || value < least) expected(name, `a number of at least ${least}`, value);
	if (value > 2e9) expected(name, `at most ${MAX_MS}`, value);
	return value;
}
/** One of the listed words, or the default where it is not given. */
function oneOf(name, words, value, fallback) {
	if (value === void 0) return fallback;
	if (!words.includes(value)) expected(name, words.map((word) => `'${word}'`).join(" or "), value);
	return value;
}
/** A string that is well-formed, not empty and at most `maxBytes` long in UTF-8. */
function text$1(name, value, maxBytes = 255) {
	if (!isText(value, maxBytes)) expected(name, `a non-empty, well-formed string of at most ${maxBytes} bytes`, value);
	return value;
}
/** Whether a value is a non-empty well-formed string of at most this many bytes. */
function isText(value, maxBytes) {
	return typeof value === "string" && value.length > 0 && value.length <= maxBytes && value.isWellFormed() && (value.length * 3 <= maxBytes || Buffer.byteLength(value) <= maxBytes);
}
/** A plain name for a table, a schema or a prefix; nothing else is ever put into SQL text. */
function identifier(name, value) {
	if (typeof value !== "string" || !/^[a-z_][a-z0-9_]{0,47}$/.test(value)) expected(name, "a name of lower-case letters, digits and _, at most 48 long", value);
	return value;
}
/** Refuses names of options that do not exist: a misspelt option must not be silently ignored. */
function noOthers(where, given, known) {
	if (typeof given !== "object" || given === null) expected(where, "an object", given);
	const other = Object.keys(given).find((key) => !known.includes(key));
	if (other !== void 0) expected(where, `an object with the options ${known.join(", ")}`, other);
}
// src/core/clock.ts
/** The clock of this process. */
const systemClock = {
	now: () => Date.now(),
	monotonic: () => performance.now(),
	after: (ms, call) => {
		const timer = setTimeout(call, ms);
		return () => clearTimeout(timer);
	}
};
/** Resolves after `ms`, or at once when the signal is aborted. */
function pause(clock, ms, signal) {
	return new Promise((resolve) => {
		if (signal?.aborted) return resolve();
		const done = () => {
			cancel();
			signal?.removeEventListener("abort", done);
			resolve();
		};
		const cancel = clock.after(ms, done);
		signal?.addEventListener("abort", done, { once: true });
	});
}
/** The work's result, or what `late` returns or throws when it takes longer than `ms`. */
async function within(clock, ms, work, late) {
	let cancel = () => {};
	const limit = new Promise((resolve, reject) => {
		cancel = clock.after(ms, () => {
			try {
				resolve(late());
			} catch (error) {
				reject(error);
			}
		});
	});
	try {
		return await Promise.race([work, limit]);
	} finally {
		cancel();
	}
}
// src/core/random.ts
const pool = /* @__PURE__ */ new Uint8Array(4096);
let used = pool.length;
function pooledBytes(count) {
	if (count > pool.length) return randomFillSync(new Uint8Array(count));
	if (used + count > pool.length) {
		randomFillSync(pool);
		used = 0;
	}
	used += count;
	return pool.slice(used - count, used);
}
/** The random source of this process. */
const systemRandom = {
	number: () => Math.random(),
	token: () => randomUUID(),
	bytes: pooledBytes
};
// src/core/uuid.ts
/** Returns a function that mints UUIDv7 ids: 48 bits of time, a counter that keeps ids of one process rising, random bits. */
function uuidv7Source(clock, random) {
	let lastMs = 0;
	let counter = 0;
	return () => {
		const now = clock.now();
		const bytes = random.bytes(10);
		if (now > lastMs) {
			lastMs = now;
			counter = ((bytes[0] ?? 0) << 8 | (bytes[1] ?? 0)) & 2047;
		} else if (++counter > 4095) {
			lastMs += 1;
			counter = 0;
		}
		const variant = (bytes[2] ?? 0) & 63 | 128;
		return format(hex$1(lastMs, 12) + hex$1(28672 | counter, 4) + hex$1(variant, 2) + toHex(bytes.subarray(3, 10)));
	};
}
const UUIDV7 = /^([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i;
/** The 48 bits of time of a UUIDv7, as 12 lower-case hexadecimal digits; undefined for any other text. */
function uuidv7Time(text) {
	if (text.length !== 36) return void 0;
	const match = UUIDV7.exec(text);
	return match ? `${match[1]}${match[2]}`.toLowerCase() : void 0;
}
/** 32 hexadecimal digits with the dashes of a UUID. */
function format(digits) {
	return `${digits.slice(0, 8)}-${digits.slice(8, 12)}-${digits.slice(12, 16)}-${digits.slice(16, 20)}-${digits.slice(20)}`;
}
function hex$1(value, digits) {
	return value.toString(16).padStart(digits, "0");
}
function toHex(bytes) {
	return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex");
}
// src/core/sql/values.ts
/**
* Text as a database can hold it: PostgreSQL refuses U+0000. Texts with it, and those that look escaped, are marked with
* U+0001 and escaped; all others, practically every text, stay as they are.
*/
function encodeText(text) {
	if (text.charCodeAt(0) !== 1 && !text.includes("\0")) return text;
	return `\u0001${text.replaceAll("%", "%25").replaceAll("\0", "%00")}`;
}
/** The text that `encodeText` was given. */
function decodeText(stored) {
	if (stored.charCodeAt(0) !== 1) return stored;
	return stored.slice(1).replaceAll("%00", "\0").replaceAll("%25", "%");
}
/** A text column. */
function asText(value) {
	return decodeText(value instanceof Uint8Array ? Buffer.from(value).toString("utf8") : String(value));
}
/** A text column that may be null. */
function asTextOrNull(value) {
	return value === null || value === void 0 ? null : asText(value);
}
/** A column of bytes. */
function asBytes(value) {
	if (value instanceof Uint8Array) return value;
	throw new TypeError(`expected bytes from the database, got ${typeof value}`);
}
/** Bytes, or their hexadecimal digits, as lower-case digits. */
function asHex(value) {
	return value instanceof Uint8Array ? Buffer.from(value).toString("hex") : String(value).toLowerCase();
}
/** A UUID that comes as text or as 16 bytes. */
function asUuid(value) {
	const digits = asHex(value);
	return digits.length === 32 ? format(digits) : digits;
}
/** A time that comes as milliseconds since 1970. */
function asDate(value) {
	return new Date(Number(value));
}
/** A stored error. */
function asError(value) {
	return value === null || value === void 0 ? null : JSON.parse(asText(value));
}
/** The message columns of a row: message_key, source, id, type, key, attributes, data, fingerprint. */
function asMessage(row) {
	return {
		messageKey: asUuid(row["message_key"]),
		source: asText(row["source"]),
		id: asText(row["id"]),
		type: asText(row["type"]),
		key: asTextOrNull(row["key"]),
		attributes: asText(row["attributes"]),
		data: asBytes(row["data"]),
		fingerprint: asHex(row["fingerprint"])
	};
}
/** A UUID's 16 bytes, for databases that have no such type. */
function uuidBytes(uuid) {
	return Buffer.from(uuid.replaceAll("-", ""), "hex");
}
// src/core/sql/migrate.ts
/** The dialect's migrations with their checksums. */
function numbered(dialect) {
	return dialect.migrations.map(({ version, name, sql }) => ({
		version,
		name,
		sql,
		checksum: hash("sha256", sql.join(";\n"), "hex").slice(0, 16)
	}));
}
/** Which migrations the database has; fails with `schema-drift` when one of them was changed afterwards. */
async function migrationStates(run, dialect) {
	const applied = await appliedChecksums(() => run(dialect.migrationRows)).catch((error) => {
		if (isHapaxError(error, "schema-missing")) return /* @__PURE__ */ new Map();
		throw error;
	});
	return numbered(dialect).map((each) => withState(each, applied));
}
/** The transaction that applies what is missing. The lock makes a second instance wait and then find nothing to do. */
function migration(dialect, executorOf) {
	return {
		first: dialect.migrationLock,
		body: async (tx) => {
			const run = ({ text, params }) => executorOf(tx).query(text, params);
			try {
				return {
					value: await applyMissing(dialect, run),
					last: dialect.migrationUnlock
				};
			} catch (error) {
				for (const statement of dialect.migrationUnlock) await run(statement).catch(() => {});
				throw error;
			}
		}
	};
}
/** What `migration` does, as a plain SQL script for psql, mysql or sqlite3. */
function migrationScript(dialect, versions) {
	const chosen = numbered(dialect).filter(({ version }) => versions?.includes(version) ?? true);
	if (chosen.length === 0) return "";
	return [
		"begin",
		...dialect.migrationLock.map(inlined),
		inlined(dialect.migrationTable),
		...chosen.flatMap(({ version, name, checksum, sql }) => [
			`-- migration ${version}: ${name}\n${sql[0]}`,
			...sql.slice(1),
			inlined(dialect.migrationDone(version, name, checksum))
		]),
		...dialect.migrationUnlock.map(inlined),
		"commit"
	].map((text) => `${text.trim()};\n`).join("\n");
}
/** A statement with its values written in: those of migrations are our own names, numbers and digits. */
function inlined({ text, params }) {
	const values = params.values();
	return text.replaceAll(/\$\d+|\?/g, () => {
		const value = values.next().value;
		return typeof value === "number" ? String(value) : `'${String(value).replaceAll("'", "''")}'`;
	});
}
async function applyMissing(dialect, run) {
	await run(dialect.migrationTable);
	const applied = await appliedChecksums(() => run(dialect.migrationRows));
	const missing = numbered(dialect).filter((each) => !withState(each, applied).applied);
	for (const { version, name, checksum, sql } of missing) {
		for (const text of sql) await run({
			text,
			params: []
		});
		await run(dialect.migrationDone(version, name, checksum));
	}
	return missing;
}
async function appliedChecksums(read) {
	const { rows } = await read();
	return new Map(rows.map((row) => [Number(row.version), asText(row.checksum)]));
}
function withState(migration, applied) {
	const checksum = applied.get(migration.version);
	if (checksum !== void 0 && checksum !== migration.checksum) throw new HapaxError("schema-drift", `expected migration ${migration.version} (${migration.name}) to have the checksum ${migration.checksum}, but the database has ${checksum}: its schema was made by another version of hapax`, { fields: {
		version: migration.version,
		expected: migration.checksum,
		found: checksum
	} });
	return {
		...migration,
		applied: checksum !== void 0
	};
}
// src/core/sql/rows.ts
/** A receipt that was there before. */
function asReceipt(row) {
	return {
		token: asUuid(row["token"]),
		source: asText(row["source"]),
		id: asText(row["id"]),
		type: asText(row["type"]),
		fingerprint: asHex(row["fingerprint"]),
		takenAt: asDate(row["taken_at"])
	};
}
/** A row of the inbox. */
function asInboxRow(row) {
	return {
		seq: String(row["seq"]),
		consumer: asText(row["consumer"]),
		message: asMessage(row),
		attempts: Number(row["attempts"]),
		lost: Number(row["lost"]),
		starts: Number(row["starts"])
	};
}
/** A row of the failed store. */
function asFailed(row) {
	return {
		seq: String(row["seq"]),
		consumer: asText(row["consumer"]),
		message: asMessage(row),
		attempts: Number(row["attempts"]),
		reason: asText(row["reason"]),
		error: asError(row["error"]) ?? {
			name: "Error",
			message: ""
		},
		failedAt: asDate(row["failed_at"])
	};
}
/** How much there is: the counts of the consumers, and of the outbox. */
function asStatus(consumers, outbox) {
	return {
		consumers: consumers.map(asConsumerStatus),
		outbox: Number(outbox?.["outbox"] ?? 0),
		oldestOutboxAt: outbox?.["oldest"] == null ? null : asDate(outbox["oldest"])
	};
}
function asConsumerStatus(row) {
	return {
		consumer: asText(row["consumer"]),
		receipts: Number(row["receipts"]),
		waiting: Number(row["waiting"]),
		retrying: Number(row["retrying"]),
		failed: Number(row["failed"])
	};
}
/** A row of the dialect's `trace` statements. */
function asTrace(row) {
	const common = {
		source: asText(row["source"]),
		type: asText(row["type"]),
		at: asDate(row["at"])
	};
	const consumer = row["consumer"] == null ? "" : asText(row["consumer"]);
	switch (asText(row["place"])) {
		case "receipt": return {
			where: "receipt",
			consumer,
			...common
		};
		case "outbox": return {
			where: "outbox",
			relay: asText(row["relay"]),
			...common
		};
		case "inbox": return {
			where: "inbox",
			consumer,
			...common,
			attempts: Number(row["attempts"]),
			dueAt: asDate(row["due_at"]),
			error: asError(row["error"])
		};
		default: return {
			where: "failed",
			consumer,
			...common,
			seq: String(row["seq"]),
			attempts: Number(row["attempts"]),
			reason: asText(row["reason"]),
			error: asError(row["error"]) ?? {
				name: "Error",
				message: ""
			}
		};
	}
}
// src/core/driver.ts
/** The error of a transaction whose own statements met a conflict or lost the link. */
function doomed(kind, cause) {
	return kind === "lost" ? new HapaxError("transaction-lost", "the connection was lost inside the transaction", { cause }) : new HapaxError("transaction-conflict", "the database gave up this transaction in favour of another", { cause });
}
/** The error for a handle whose transaction has settled. */
function transactionClosed() {
	return new HapaxError("transaction-closed", "this transaction has settled; its handle cannot be used any more");
}
/** The error for something that is not an open transaction. */
function notInTransaction(detail, cause) {
	return new HapaxError("not-in-transaction", `expected tx to be an open transaction, got ${detail}`, { cause });
}
/** The error for a handler that returned while its statements were still running. */
function unawaited(count) {
	return new HapaxError("unawaited-query", `the handler returned while ${count === 1 ? "one of its queries was" : `${count} of its queries were`} still running: await every query`);
}
/** Settles with the steps, or, when the signal aborts, ends them by force and rejects with its reason without waiting. */
function untilAborted(signal, steps, end) {
	if (signal === void 0) return steps();
	return new Promise((resolve, reject) => {
		const abort = () => {
			end();
			reject(signal.reason);
		};
		if (signal.aborted) return abort();
		signal.addEventListener("abort", abort, { once: true });
		steps().finally(() => signal.removeEventListener("abort", abort)).then(resolve, reject);
	});
}
/** The class of an error or of the first of its causes that has one; ORMs and handlers wrap errors. */
function classOfCauses(error, classOf) {
	for (let each = error, depth = 0; each && depth < 5; depth++) {
		if (each instanceof HapaxError) return "other";
		const found = typeof each === "object" ? classOf(each) : "other";
		if (found !== "other") return found;
		each = each.cause;
	}
	return "other";
}
// src/core/sql/store-errors.ts
/** Says what errors of a driver mean, by where they came up. */
var StoreErrors = class {
	#dialect;
	constructor(dialect) {
		this.#dialect = dialect;
	}
	/** The error of a transaction that had come so far. What a body threw is left alone. */
	ofTransaction(error, phase, signal) {
		if (phase === "body") return error;
		const aborted = signal?.aborted && error === signal.reason;
		if (phase === "committing") return aborted ? commitUnknown(error) : this.#ofCommit(error);
		if (aborted || error instanceof HapaxError) return error;
		const kind = this.#dialect.classify(error);
		if (kind === "lock-timeout" || kind === "cancelled") return new HapaxError("busy", "another transaction holds the row", { cause: error });
		return kind === "conflict" ? doomed(kind, error) : this.#unavailable(error, kind);
	}
	/** The error of a statement, or of a short transaction, that has nothing to do with a handler. */
	ofQuery(error) {
		const kind = this.#dialect.classify(error);
		if (error instanceof HapaxError) return error;
		return kind === "conflict" || kind === "lock-timeout" ? doomed("conflict", error) : this.#unavailable(error, kind);
	}
	/** The error of our own statement inside a transaction of somebody else's. */
	inside(error) {
		const kind = this.#dialect.classify(error);
		return kind === "no-schema" ? this.#unavailable(error, kind) : this.ofGuard(error);
	}
	/** The error of the guard: the transaction was given up, or is not there any more. */
	ofGuard(error) {
		if (error instanceof HapaxError) return error;
		const kind = this.#dialect.classify(error);
		if (kind === "lost" || kind === "conflict") return doomed(kind, error);
		if (kind === "gone") return brokenAtomicity$1(error);
		if (kind !== "aborted") return error;
		return new HapaxError("transaction-aborted", "the handler went on after an SQL error, but the database had given up the transaction: rethrow such errors, or run the statement in a savepoint", { cause: error });
	}
	#ofCommit(error) {
		if (error instanceof HapaxError) return error;
		if (!this.#dialect.answered(error)) return commitUnknown(error);
		if (this.#dialect.classify(error) === "lock-timeout") return doomed("conflict", error);
		return this.inside(error);
	}
	#unavailable(error, kind) {
		if (kind === "no-schema") return new HapaxError("schema-missing", "the tables of hapax are missing: run hapax.migrate() or npx hapax migrate", { cause: error });
		if (kind !== "lost" || error instanceof HapaxError) return error;
		const { message, code } = error;
		return new HapaxError("store-unavailable", `${this.#dialect.name} could not be reached: ${redact(String(message || code))}`, { cause: error });
	}
};
function commitUnknown(cause) {
	return new HapaxError("commit-unknown", "the connection was lost while committing", { cause });
}
/** The transaction that was opened is not there any more. */
function brokenAtomicity$1(cause) {
	return new HapaxError("broken-atomicity", "the handler ended its transaction itself (COMMIT, ROLLBACK, or a statement that commits implicitly, such as DDL on MySQL)", { cause });
}
// src/core/sql/sql-store.ts
/** A store on an SQL database: the logic is here, the statements are the dialect's, the transactions the connection's. */
var SqlStore = class {
	features;
	#connection;
	#dialect;
	#random;
	#errors;
	#ready = false;
	constructor(connection, dialect, random = systemRandom) {
		this.#connection = connection;
		this.#dialect = dialect;
		this.#random = random;
		this.#errors = new StoreErrors(dialect);
		const { roundTrips, lateUse, unawaited } = connection.features;
		const { isolationLevels, parallelWriters, ownTransactions } = dialect;
		this.features = Object.freeze({
			name: connection.features.name,
			isolationLevels,
			parallelWriters,
			ownTransactions,
			durable: true,
			roundTrips,
			lateUse,
			unawaited
		});
	}
	async ready() {
		if (this.#ready) return;
		const missing = (await this.migrations()).filter((migration) => !migration.applied);
		if (missing.length > 0) throw new HapaxError("schema-outdated", `expected the database to have migration ${missing.map((each) => each.version).join(", ")}: run hapax.migrate() or npx hapax migrate`, { fields: { missing: missing.map((each) => each.version) } });
		this.#ready = true;
	}
	async migrations() {
		return migrationStates((statement) => this.#run(statement), this.#dialect);
	}
	migrationScript(versions) {
		return migrationScript(this.#dialect, versions);
	}
	async migrate() {
		const applied = await this.#admin(migration(this.#dialect, (tx) => this.#connection.executor(tx)));
		this.#ready = true;
		return applied;
	}
	async transaction(options, opening, body) {
		const opened = this.#opening(options, opening);
		const { isolation, signal, acquired } = options;
		const lockTimeoutMs = opening.kind === "plain" ? void 0 : options.lockTimeoutMs;
		let backend;
		let phase = "opening";
		let ending;
		let endedIn;
		const end = () => {
			endedIn = phase;
			ending = backend && this.#terminate(backend);
		};
		try {
			return await this.#connection.transaction(this.#transactionOptions({
				isolation,
				signal,
				acquired,
				lockTimeoutMs
			}), {
				first: opened.statements,
				body: async (tx, answers) => {
					const own = answers.slice(opened.from, opened.to);
					backend = signal && this.#dialect.backend(own);
					if (backend !== void 0) signal?.addEventListener("abort", end, { once: true });
					const executor = this.#connection.executor(tx);
					const unit = await this.#unit(tx, executor, opening, own);
					phase = "body";
					const result = await this.#guarded(executor, signal, () => body(unit));
					phase = "committing";
					return this.#end(result);
				}
			});
		} catch (error) {
			await ending;
			throw this.#errors.ofTransaction(error, endedIn ?? phase, signal);
		} finally {
			if (backend !== void 0) signal?.removeEventListener("abort", end);
		}
	}
	#transactionOptions(options = {}) {
		return {
			...options,
			classify: this.#dialect.classify
		};
	}
	#opening(options, opening) {
		const dialect = this.#dialect;
		const settings = dialect.settings(options, opening.kind);
		const own = opening.kind === "take" ? dialect.take(opening.consumer, opening.token, opening.messages, options.lockTimeoutMs) : opening.kind === "claim" ? [dialect.claim(opening.seqs, opening.locked, options.lockTimeoutMs, options.isolation)] : [];
		const from = settings.length;
		return {
			statements: [
				...settings,
				...own,
				...dialect.guardSet
			],
			from,
			to: from + own.length
		};
	}
	async #unit(tx, executor, opening, answers) {
		const check = () => this.#check(executor);
		const unit = {
			tx,
			check,
			existing: NO_RECEIPTS,
			claimed: NO_ROWS$1
		};
		if (opening.kind === "take") return {
			...unit,
			existing: await this.#existing(executor, opening, answers)
		};
		if (opening.kind !== "claim") return unit;
		return {
			...unit,
			claimed: await this.#claimed(executor, answers)
		};
	}
	/** The rows go first, not last: whoever commits behind our back commits that they are gone, and nobody runs them again. */
	async #claimed(executor, [answer]) {
		const seqs = answer?.rows.map((row) => String(row["seq"])) ?? [];
		if (seqs.length > 0 && !this.#dialect.claimDeletes) for (const { text, params } of this.#dialect.deleteInbox(seqs)) await executor.query(text, params);
		return new Set(seqs);
	}
	/** The receipts that were there before, read by a second statement: the first one's snapshot is too old to see them. */
	async #existing(executor, opening, answers) {
		const { consumer, token, messages } = opening;
		const taken = this.#dialect.taken(answers, token, messages);
		if (taken === "all" || taken.size === messages.length) return NO_RECEIPTS;
		const keys = messages.map((message) => message.messageKey).filter((key) => !taken.has(key));
		const statement = this.#dialect.receipts(consumer, keys);
		const { rows } = await executor.query(statement.text, statement.params);
		if (rows.length !== keys.length) throw new HapaxError("transaction-conflict", "a receipt vanished while it was read");
		return new Map(rows.map((row) => [asUuid(row["message_key"]), asReceipt(row)]));
	}
	async #check(executor) {
		try {
			for (const { text, params } of this.#dialect.guardCheck) await executor.query(text, params);
		} catch (error) {
			throw this.#errors.ofGuard(error);
		}
	}
	/** Runs the body; when it fails, finds out whether the transaction was still ours. */
	async #guarded(executor, signal, body) {
		try {
			return await body();
		} catch (error) {
			if (signal?.aborted) throw error;
			try {
				for (const { text, params } of this.#dialect.guardRollback) await executor.query(text, params);
			} catch (guardError) {
				if (this.#dialect.classify(guardError) === "gone") throw brokenAtomicity$1(error);
			}
			throw error;
		}
	}
	#end({ value, writes }) {
		return {
			value,
			last: writes && [...this.#dialect.guardRelease, ...this.#writes(writes)]
		};
	}
	#writes({ inbox, failed, outbox }) {
		const dialect = this.#dialect;
		return [
			...inbox?.length ? dialect.insertInbox(inbox) : [],
			...failed?.length ? dialect.insertFailed(failed) : [],
			...outbox?.length ? dialect.insertOutbox(outbox) : []
		];
	}
	/** Ends a transaction that outlived its time from another connection; its own may be busy with a statement. */
	async #terminate(backend) {
		try {
			const ended = this.#run(this.#dialect.terminate(backend));
			await within(systemClock, TERMINATE_MS, ended, () => NO_ANSWER);
		} catch {}
	}
	assertTransaction(tx) {
		return this.#connection.assertTransaction(tx);
	}
	async writeOutbox(tx, rows) {
		const executor = this.#connection.executor(tx);
		await this.#inside(async () => {
			for (const { text, params } of this.#dialect.insertOutbox(rows)) await executor.query(text, params);
		});
	}
	writeLocal(tx, rows) {
		const executor = this.#connection.executor(tx);
		return this.#inside(() => this.#dialect.writeLocal(executor, rows, this.#random.token()));
	}
	/** Runs our own statements inside somebody's transaction. */
	async #inside(write) {
		try {
			return await write();
		} catch (error) {
			throw this.#errors.inside(error);
		}
	}
	async due(types, options) {
		if (types.size === 0) return [];
		const { rows } = await this.#dialect.due(this.#run.bind(this), types, options, this.#short.bind(this));
		return rows.map(asInboxRow).sort((a, b) => BigInt(a.seq) < BigInt(b.seq) ? -1 : 1);
	}
	async nextDueMs(types) {
		let next;
		for (const [consumer, names] of types) {
			const ms = (await this.#run(this.#dialect.nextDue(consumer, names))).rows[0]?.["ms"];
			if (ms !== null && ms !== void 0) next = Math.min(next ?? Number.POSITIVE_INFINITY, Math.max(0, Number(ms)));
		}
		return next;
	}
	async inFlight(types) {
		for (const [consumer, names] of types) if ((await this.#run(this.#dialect.inFlight(consumer, names))).rows.length > 0) return true;
		return false;
	}
	async reschedule(row) {
		return (await this.#run(this.#dialect.reschedule(row))).affected > 0;
	}
	fail(row) {
		const dialect = this.#dialect;
		return this.#move(dialect.lock([row.seq], "wait", MOVE_LOCK_MS), [dialect.copyToFailed(row), ...dialect.deleteInbox([row.seq])]);
	}
	async inboxRow(consumer, messageKey) {
		const { rows } = await this.#run(this.#dialect.inboxRow(consumer, messageKey));
		return rows[0] && asInboxRow(rows[0]);
	}
	async subscribe(consumer, types) {
		for (const type of types) if (!await this.isSubscribed(consumer, type)) await this.#run(this.#dialect.subscribe(consumer, type));
	}
	async isSubscribed(consumer, type) {
		return (await this.#run(this.#dialect.subscription(consumer, type))).rows.length > 0;
	}
	async failedList(filter) {
		return (await this.#run(this.#dialect.failedList(filter))).rows.map(asFailed);
	}
	async failedGet(seq) {
		const { rows } = await this.#run(this.#dialect.failedGet(seq));
		return rows[0] && asFailed(rows[0]);
	}
	failedRetry(seq) {
		const dialect = this.#dialect;
		return this.#move(dialect.failedLock(seq), [dialect.copyToInbox(seq), dialect.deleteFailed(seq)]);
	}
	failedDiscard(seq) {
		return this.#move(this.#dialect.failedLock(seq), [this.#dialect.deleteFailed(seq)]);
	}
	/** Moves a row between tables if it is still there. */
	async #move(lock, statements) {
		const there = ({ rows }) => rows.length > 0;
		return there(await this.#short(lock, (answer) => there(answer) ? statements : void 0));
	}
	#short(first, then) {
		return this.#admin({
			first: [first],
			body: async (_tx, [answer = NO_ANSWER]) => ({
				value: answer,
				last: then(answer)
			})
		});
	}
	async status() {
		const consumers = await this.#run(this.#dialect.statusConsumers);
		const outbox = await this.#run(this.#dialect.statusOutbox);
		return asStatus(consumers.rows, outbox.rows[0]);
	}
	async trace(id, source) {
		const traces = [];
		for (const statement of this.#dialect.trace(id)) traces.push(...(await this.#run(statement)).rows.map(asTrace));
		return traces.filter((trace) => source === void 0 || trace.source === source).sort((a, b) => a.at.getTime() - b.at.getTime());
	}
	close() {
		return this.#connection.close();
	}
	async #admin(work) {
		try {
			return await this.#connection.transaction(this.#transactionOptions(), work);
		} catch (error) {
			throw this.#errors.ofQuery(error);
		}
	}
	/** One statement; again on a new connection if the first one was broken. All of them may be repeated. */
	async #run(statement) {
		try {
			return await this.#inTime(statement);
		} catch (error) {
			if (!(this.#dialect.classify(error) === "lost")) throw this.#errors.ofQuery(error);
		}
		return this.#inTime(statement).catch((error) => {
			throw this.#errors.ofQuery(error);
		});
	}
	#inTime({ text, params }) {
		return within(systemClock, QUERY_MS, this.#connection.query(text, params), () => {
			throw new HapaxError("store-unavailable", `the database did not answer within ${QUERY_MS} ms`);
		});
	}
};
const NO_RECEIPTS = /* @__PURE__ */ new Map();
const NO_ROWS$1 = /* @__PURE__ */ new Set();
const NO_ANSWER = {
	rows: [],
	affected: 0
};
const MOVE_LOCK_MS = 5e3;
/** How long a statement outside a transaction may take. */
const QUERY_MS = 6e4;
/** How long to wait for the end of a transaction that outlived its time. */
const TERMINATE_MS = 5e3;
// src/core/sql/watch.ts
/** Watches one transaction: counts the statements that run, remembers what doomed it, and is closed when it settles. */
var TransactionWatch = class {
	#doomOf;
	#closed = false;
	#running = 0;
	#waiting = [];
	#doom;
	constructor(doomOf) {
		this.#doomOf = doomOf;
	}
	get closed() {
		return this.#closed;
	}
	close() {
		this.#closed = true;
	}
	/** The link is gone: whatever the handler does with the error, this transaction cannot commit. */
	lose(error) {
		this.#doom ??= {
			kind: "lost",
			error
		};
	}
	assertOpen() {
		if (this.#closed) throw transactionClosed();
	}
	assertNotDoomed() {
		if (this.#doom !== void 0) throw doomed(this.#doom.kind, this.#doom.error);
	}
	/** Throws what keeps this transaction from committing, if anything does. */
	assertSound() {
		this.assertNotDoomed();
		if (this.#running > 0) throw unawaited(this.#running);
	}
	/** Runs the body of the transaction; afterwards its handle is dead, and what doomed it comes before what it threw. */
	async during(body) {
		try {
			const end = await body();
			this.assertSound();
			return end;
		} catch (error) {
			this.assertNotDoomed();
			throw error;
		} finally {
			this.close();
		}
	}
	track(result) {
		this.#running += 1;
		result.then(() => this.#settled(), (error) => {
			const kind = this.#doomOf(error);
			if (kind !== void 0) this.#doom ??= {
				kind,
				error
			};
			this.#settled();
		});
		return result;
	}
	/** Resolves when none of the handler's statements runs any more: a client takes one at a time. */
	idle() {
		if (this.#running === 0) return void 0;
		return new Promise((resolve) => {
			this.#waiting.push(resolve);
		});
	}
	#settled() {
		this.#running -= 1;
		if (this.#running === 0) for (const resolve of this.#waiting.splice(0)) resolve();
	}
	/** The client as handlers may have it: `usable` is asked before every use, and what it starts is tracked. */
	guard(client, usable, nested = []) {
		return new Proxy(client, { get: (target, name) => {
			usable();
			const value = Reflect.get(target, name, target);
			if (nested.includes(name) && typeof value === "object" && value !== null) return this.guard(value, usable);
			if (typeof value !== "function") return value;
			return (...args) => {
				usable();
				const result = value.apply(target, args);
				return result instanceof Promise ? this.track(result) : result;
			};
		} });
	}
};
// src/stores/postgres/literal.ts
/**
* Statements as one text with their values written in, for the simple query protocol: it carries several statements in
* one round trip, and a failing one stops the rest. Every statement of hapax casts each parameter, so a quoted literal
* means the same as a bound value.
*/
function script(statements) {
	return statements.map(inline).join(";");
}
const parsed = /* @__PURE__ */ new Map();
function inline({ text, params }) {
	if (params.length === 0) return text;
	let parts = parsed.get(text);
	if (parts === void 0) {
		parts = text.split(/\$(\d+)/);
		parsed.set(text, parts);
	}
	let out = parts[0];
	for (let index = 1; index < parts.length; index += 2) out += literal(params[Number(parts[index]) - 1]) + parts[index + 1];
	return out;
}
/** A value as an SQL literal, whatever `standard_conforming_strings` says. */
function literal(value) {
	if (value === null || value === void 0) return "NULL";
	if (typeof value === "number") return `'${value}'`;
	if (typeof value !== "string") return `E'\\\\x${hex(value)}'`;
	if (value.includes("\0")) throw new TypeError("a text with U+0000 cannot be sent to PostgreSQL");
	if (value.includes("\\")) return ` E'${value.replaceAll("\\", "\\\\").replaceAll("'", "''")}'`;
	return value.includes("'") ? `'${value.replaceAll("'", "''")}'` : `'${value}'`;
}
/** Values as the text of a PostgreSQL array: a scalar for every driver, cast to an array by the statement. */
function array(values) {
	return `{${values.map(element).join(",")}}`;
}
function element(value) {
	if (value === null) return "NULL";
	if (typeof value === "number") return String(value);
	if (typeof value !== "string") return `"\\\\x${hex(value)}"`;
	const escaped = value.includes("\\") ? value.replaceAll("\\", "\\\\") : value;
	return `"${escaped.includes("\"") ? escaped.replaceAll("\"", "\\\"") : escaped}"`;
}
function hex(bytes) {
	return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex");
}
// src/stores/postgres/errors.ts
/** SQLSTATEs by what they mean for the message; a prefix of two characters stands for its class. */
const CLASSES$2 = {
	"40001": "conflict",
	"40P01": "conflict",
	"55P03": "lock-timeout",
	"57014": "cancelled",
	"25P02": "aborted",
	"25P01": "gone",
	"3B001": "gone",
	"25P03": "lost",
	"25P04": "lost",
	"57P01": "lost",
	"57P02": "lost",
	"57P03": "lost",
	"57P05": "lost",
	"42P01": "no-schema",
	"3F000": "no-schema",
	"25006": "lost",
	"08": "lost",
	"53": "lost",
	"58": "lost",
	XX: "lost"
};
const SOCKET_ERRORS = /^(ECONN|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|ENOENT)/;
const DRIVER_MESSAGES$1 = /Connection terminated|connection error and is not queryable|Client was closed|timeout exceeded when trying to connect|Query read timeout|Cannot use a pool after calling end/;
/** What an error of PostgreSQL or its driver means; ORMs wrap such errors, so causes are looked at as well. */
function classify$2(error) {
	return classOfCauses(error, classOf$2);
}
function classOf$2({ code, severity, message, constraint }) {
	if (severity === "FATAL" || severity === "PANIC") return "lost";
	if (typeof code === "string") {
		if (code === "23505" && /^hapax_receipts_key(_cc(new|old)\d*)?$/.test(String(constraint))) return "conflict";
		const found = CLASSES$2[code] ?? CLASSES$2[code.slice(0, 2)];
		if (found !== void 0 && code.length === 5) return found;
		if (SOCKET_ERRORS.test(code)) return "lost";
	}
	return typeof message === "string" && DRIVER_MESSAGES$1.test(message) ? "lost" : "other";
}
/** Whether the server itself answered with this error: then a commit is known not to have happened. */
function answered$2(error) {
	for (let each = error, depth = 0; each && depth < 5; depth++) {
		const { code, severity } = each;
		if (severity !== void 0) return severity === "ERROR" && typeof code === "string" && code !== "40003";
		each = each.cause;
	}
	return false;
}
// src/stores/postgres/transaction.ts
/** One transaction on one client, as handlers have it. */
var PgTransaction = class {
	watch = new TransactionWatch(doomOf$1);
	#raw;
	#guarded;
	constructor(client) {
		this.#raw = client;
	}
	query(text, params) {
		if (this.watch.closed) return Promise.reject(transactionClosed());
		return this.watch.track(this.#raw.query(text, params));
	}
	get client() {
		this.#guarded ??= this.watch.guard(this.#raw, () => this.watch.assertOpen());
		return this.#guarded;
	}
	/** The client itself, for the statements of hapax. */
	get raw() {
		return this.#raw;
	}
};
function doomOf$1(error) {
	const kind = classify$2(error);
	return kind === "conflict" || kind === "lost" ? kind : void 0;
}
// src/stores/postgres/connection.ts
/** Transactions on a pool of `pg`. BEGIN travels with the first statements, COMMIT with the last ones. */
var PgConnection = class {
	features = {
		name: "postgres",
		roundTrips: 2,
		lateUse: "refused",
		unawaited: "detected"
	};
	#pool;
	#close;
	constructor(pool, close) {
		this.#pool = pool;
		this.#close = close;
	}
	async transaction(options, work) {
		const client = await (await this.#pool()).connect();
		options.acquired?.();
		const run = new Run$2(client);
		const onError = (error) => run.tx.watch.lose(error);
		client.on("error", onError);
		try {
			return await untilAborted(options.signal, () => run.steps(options, work), () => run.destroy());
		} finally {
			run.tx.watch.close();
			if (!run.broken) client.off("error", onError);
			client.release(run.broken);
		}
	}
	executor(tx) {
		const own = tx instanceof PgTransaction ? tx : void 0;
		const client = own?.raw ?? tx;
		return { query: async (text, params) => {
			await own?.watch.idle();
			return toResult(await client.query(text, params));
		} };
	}
	async assertTransaction(tx) {
		if (tx instanceof PgTransaction) {
			tx.watch.assertOpen();
			return;
		}
		if (typeof tx?.query !== "function") throw notInTransaction(describe(tx));
		const status = tx.getTransactionStatus?.();
		if (status === "T") return;
		if (status === "I") throw notInTransaction("a client that has not begun one");
		await probe$1(tx);
	}
	async query(text, params) {
		return toResult(await (await this.#pool()).query(text, params));
	}
	close() {
		return this.#close();
	}
};
/** One transaction on one client. */
var Run$2 = class {
	/** The client cannot be trusted any more. */
	broken = false;
	tx;
	#client;
	constructor(client) {
		this.#client = client;
		this.tx = new PgTransaction(client);
	}
	async steps({ isolation }, work) {
		const begin = isolation === void 0 ? "begin" : `begin isolation level ${isolation}`;
		try {
			const own = (await this.#script([{
				text: begin,
				params: []
			}, ...work.first])).slice(1).map(toResult);
			const { value, last } = await this.tx.watch.during(() => work.body(this.tx, own));
			if (last === void 0) await this.#rollback();
			else await this.#commit(last);
			return value;
		} catch (error) {
			await this.#rollback();
			throw error;
		}
	}
	async #commit(last) {
		if (this.broken) throw transactionClosed();
		if ((await this.#script([...last, {
			text: "commit",
			params: []
		}])).at(-1)?.command === "COMMIT") return;
		throw new HapaxError("transaction-aborted", "COMMIT answered that the transaction was rolled back");
	}
	async #script(statements) {
		const answer = await this.#client.query(script(statements));
		return Array.isArray(answer) ? answer : [answer];
	}
	async #rollback() {
		if (this.broken) return;
		try {
			await this.tx.watch.idle();
			await this.#client.query("rollback");
		} catch {
			this.destroy();
		}
	}
	destroy() {
		this.broken = true;
		this.tx.watch.close();
		const { connection } = this.#client;
		connection?.stream?.destroy?.();
	}
};
function toResult(answer) {
	const { rows, rowCount } = Array.isArray(answer) ? answer.at(-1) : answer;
	return {
		rows,
		affected: rowCount ?? 0
	};
}
/** SAVEPOINT is refused outside a transaction, so one statement tells. */
async function probe$1(client) {
	try {
		await client.query("savepoint hapax_probe");
		await client.query("release savepoint hapax_probe");
	} catch (error) {
		throw notInTransaction("a client that has not begun one, or whose transaction has failed", error);
	}
}
// src/stores/postgres/migrations.ts
/** The schema, step by step. A released step is never changed: add one. */
function migrations$2(schema) {
	return [{
		version: 1,
		name: "inbox and outbox",
		sql: [
			`create table ${schema}.receipts (
  taken_at timestamptz not null default clock_timestamp(),
  message_key uuid not null,
  token uuid not null,
  fingerprint bytea not null,
  consumer text not null,
  source text not null,
  id text not null,
  type text not null,
  constraint hapax_receipts_key primary key (consumer, message_key)
)`,
			`create table ${schema}.inbox (
  seq bigint generated always as identity primary key,
  created_at timestamptz not null default clock_timestamp(),
  available_at timestamptz not null,
  message_key uuid not null,
  attempts integer not null default 0,
  lost integer not null default 0,
  starts integer not null default 0,
  fingerprint bytea not null,
  consumer text not null,
  source text not null,
  id text not null,
  type text not null,
  key text,
  attributes text not null,
  error text,
  data bytea not null
)`,
			`create index inbox_due on ${schema}.inbox (consumer, available_at, seq)`,
			`create index inbox_message on ${schema}.inbox (message_key)`,
			`create table ${schema}.outbox (
  seq bigint generated always as identity primary key,
  created_at timestamptz not null default clock_timestamp(),
  available_at timestamptz not null,
  message_key uuid not null,
  fingerprint bytea not null,
  relay text not null,
  source text not null,
  id text not null,
  type text not null,
  key text,
  attributes text not null,
  data bytea not null
)`,
			`create table ${schema}.failed (
  seq bigint generated always as identity primary key,
  failed_at timestamptz not null default clock_timestamp(),
  message_key uuid not null,
  attempts integer not null,
  fingerprint bytea not null,
  consumer text not null,
  source text not null,
  id text not null,
  type text not null,
  key text,
  attributes text not null,
  reason text not null,
  error text not null,
  data bytea not null,
  constraint hapax_failed_message unique (consumer, message_key, fingerprint)
)`,
			`create table ${schema}.subscriptions (
  consumer text not null,
  type text not null,
  primary key (consumer, type)
)`
		]
	}];
}
// src/stores/postgres/sql.ts
const NO_PARAMS$3 = [];
const plain$2 = (text) => ({
	text,
	params: NO_PARAMS$3
});
/** The statements of PostgreSQL in one schema. */
function dialect$2(schema) {
	const sql = statements$2(schema);
	return {
		name: "postgres",
		isolationLevels: [
			"read committed",
			"repeatable read",
			"serializable"
		],
		parallelWriters: true,
		ownTransactions: true,
		classify: classify$2,
		answered: answered$2,
		migrations: migrations$2(schema),
		migrationLock: [
			plain$2(`set local lock_timeout = '60s'`),
			{
				text: "select pg_advisory_xact_lock(hashtextextended($1::text, 0))",
				params: [`hapax migrate ${schema}`]
			},
			plain$2(`create schema if not exists ${schema}`)
		],
		migrationUnlock: [],
		migrationTable: plain$2(sql.migrationTable),
		migrationRows: plain$2(sql.migrationRows),
		migrationDone: (version, name, checksum) => ({
			text: sql.migrationDone,
			params: [
				version,
				name,
				checksum
			]
		}),
		settings: ({ lockTimeoutMs, idleTimeoutMs }, opening) => [plain$2(`set local idle_in_transaction_session_timeout = ${Math.ceil(idleTimeoutMs)}`), ...opening === "plain" ? [] : [plain$2(`set local lock_timeout = ${Math.max(1, Math.ceil(lockTimeoutMs))}`)]],
		guardSet: [plain$2("set local lock_timeout to default"), plain$2("savepoint hapax")],
		guardRelease: [plain$2("release savepoint hapax")],
		guardCheck: [plain$2("release savepoint hapax;savepoint hapax")],
		guardRollback: [plain$2("rollback to savepoint hapax")],
		take: (consumer, token, messages) => [messages.length === 1 ? takeOne(sql.takeOne, consumer, token, messages[0]) : takeMany(sql.takeMany, consumer, token, messages)],
		taken: ([answer], _token, messages) => takenKeys$2(answer, messages.length),
		receipts: (consumer, keys) => ({
			text: sql.receipts,
			params: [consumer, array(keys)]
		}),
		claim: (seqs, locked) => ({
			text: locked === "skip" ? sql.claimSkip : sql.claimWait,
			params: [array(seqs)]
		}),
		claimDeletes: true,
		lock: (seqs, locked) => ({
			text: locked === "skip" ? sql.lockSkip : sql.lockWait,
			params: [array(seqs)]
		}),
		backend: ([answer]) => backendOf$1(answer),
		terminate: ([pid, xid]) => ({
			text: sql.terminate,
			params: [Number(pid), String(xid)]
		}),
		deleteInbox: (seqs) => [{
			text: sql.deleteInbox,
			params: [array(seqs)]
		}],
		insertInbox: (rows) => [{
			text: sql.insertInbox,
			params: [
				array(rows.map((row) => row.consumer)),
				...messageArrays(rows.map((row) => row.message)),
				array(rows.map((row) => row.attempts)),
				array(rows.map((row) => row.starts)),
				array(rows.map((row) => row.delayMs)),
				array(rows.map((row) => row.error && JSON.stringify(row.error)))
			]
		}],
		insertFailed: (rows) => [{
			text: sql.insertFailed,
			params: [
				array(rows.map((row) => row.consumer)),
				...messageArrays(rows.map((row) => row.message)),
				array(rows.map((row) => row.attempts)),
				array(rows.map((row) => row.reason)),
				array(rows.map((row) => JSON.stringify(row.error)))
			]
		}],
		insertOutbox: (rows) => [{
			text: sql.insertOutbox,
			params: [
				array(rows.map((row) => row.relay)),
				...messageArrays(rows.map((row) => row.message)),
				array(rows.map((row) => row.delayMs))
			]
		}],
		writeLocal: async (executor, rows, token) => {
			const known = rows.flatMap(({ message, consumers }) => consumers.map((consumer) => [message.type, consumer]));
			const { rows: answers } = await executor.query(sql.writeLocal, [
				...messageArrays(rows.map((row) => row.message)),
				array(rows.map((row) => row.delayMs)),
				array(known.map(([type]) => encodeText(type))),
				array(known.map(([, consumer]) => consumer)),
				token
			]);
			return answers.map((row) => ({
				consumers: Number(row["consumers"]),
				fresh: Number(row["fresh"])
			}));
		},
		due: async (query, types, { limit, except, started, hideMs }) => {
			const rows = [];
			for (const [consumer, names] of types) {
				if (rows.length >= limit) break;
				const params = [
					hideMs,
					...[
						consumer,
						array(names.map(encodeText)),
						String(started),
						array(except)
					],
					limit - rows.length
				];
				rows.push(...(await query({
					text: sql.due,
					params
				})).rows);
			}
			return {
				rows,
				affected: rows.length
			};
		},
		nextDue: (consumer, types) => ({
			text: sql.nextDue,
			params: [consumer, array(types.map(encodeText))]
		}),
		inFlight: (consumer, types) => ({
			text: sql.inFlight,
			params: [consumer, array(types.map(encodeText))]
		}),
		reschedule: ({ seq, attempts, lost, delayMs, error }) => ({
			text: sql.reschedule,
			params: [
				attempts,
				lost,
				delayMs,
				JSON.stringify(error),
				seq
			]
		}),
		copyToFailed: ({ seq, attempts, reason, error }) => ({
			text: sql.copyToFailed,
			params: [
				attempts,
				reason,
				JSON.stringify(error),
				seq
			]
		}),
		inboxRow: (consumer, messageKey) => ({
			text: sql.inboxRow,
			params: [consumer, messageKey]
		}),
		subscribe: (consumer, type) => ({
			text: sql.subscribe,
			params: [consumer, encodeText(type)]
		}),
		subscription: (consumer, type) => ({
			text: sql.subscription,
			params: [consumer, encodeText(type)]
		}),
		failedList: ({ consumer, type, reason, before, limit }) => ({
			text: sql.failedList,
			params: [
				consumer ?? null,
				type === void 0 ? null : encodeText(type),
				reason ?? null,
				before ?? null,
				limit
			]
		}),
		failedGet: (seq) => ({
			text: sql.failedGet,
			params: [seq]
		}),
		failedLock: (seq) => ({
			text: sql.failedLock,
			params: [seq]
		}),
		copyToInbox: (seq) => ({
			text: sql.copyToInbox,
			params: [seq]
		}),
		deleteFailed: (seq) => ({
			text: sql.deleteFailed,
			params: [seq]
		}),
		statusConsumers: plain$2(sql.statusConsumers),
		statusOutbox: plain$2(sql.statusOutbox),
		trace: (id) => sql.trace.map((text) => ({
			text,
			params: [encodeText(id)]
		}))
	};
}
function takeOne(text, consumer, token, message) {
	const { messageKey, source, id, type, fingerprint } = message;
	return {
		text,
		params: [
			consumer,
			messageKey,
			token,
			encodeText(source),
			encodeText(id),
			encodeText(type),
			fingerprint
		]
	};
}
function takeMany(text, consumer, token, messages) {
	return {
		text,
		params: [
			consumer,
			token,
			array(messages.map((message) => message.messageKey)),
			array(messages.map((message) => encodeText(message.source))),
			array(messages.map((message) => encodeText(message.id))),
			array(messages.map((message) => encodeText(message.type))),
			array(messages.map((message) => message.fingerprint)),
			messages.length
		]
	};
}
function takenKeys$2(answer, count) {
	const keys = answer?.rows[0]?.["message_key"];
	if (keys === "all" || count === 1 && keys !== void 0) return "all";
	return new Set(keys === void 0 || keys === null ? [] : String(keys).split(","));
}
/** message_key, source, id, type, key, attributes, data, fingerprint: eight parameters. */
function messageArrays(messages) {
	return [
		array(messages.map((message) => message.messageKey)),
		array(messages.map((message) => encodeText(message.source))),
		array(messages.map((message) => encodeText(message.id))),
		array(messages.map((message) => encodeText(message.type))),
		array(messages.map((message) => message.key === null ? null : encodeText(message.key))),
		array(messages.map((message) => message.attributes)),
		array(messages.map((message) => message.data)),
		array(messages.map((message) => message.fingerprint))
	];
}
function backendOf$1(answer) {
	const row = answer?.rows[0];
	return row && [Number(row["pid"]), String(row["xid"])];
}
const MS$1 = (column) => `(extract(epoch from ${column}) * 1000)::float8`;
const LATER$2 = (parameter) => `clock_timestamp() + ${parameter} * interval '1 millisecond'`;
const MESSAGE$2 = `message_key::text as message_key, source, id, type, key, attributes, data, encode(fingerprint, 'hex') as fingerprint`;
const INBOX$2 = `seq::text as seq, consumer, ${MESSAGE$2}, attempts, lost, starts`;
const BACKEND = `pg_backend_pid() as pid, pg_current_xact_id()::text as xid`;
/**
* Every statement, whole and by name. Parameters are scalars, each used once and in order, each cast.
* ON CONFLICT names no key: while REINDEX CONCURRENTLY swaps the index, a named one is not found, or is not the only one.
*/
function statements$2(schema) {
	return {
		migrationTable: `
create table if not exists ${schema}.migrations (
  version integer primary key,
  name text not null,
  checksum text not null,
  applied_at timestamptz not null default clock_timestamp()
)`,
		migrationRows: `select version, checksum from ${schema}.migrations`,
		migrationDone: `
insert into ${schema}.migrations (version, name, checksum) values ($1::integer, $2::text, $3::text)`,
		takeOne: `
insert into ${schema}.receipts (consumer, message_key, token, source, id, type, fingerprint)
values ($1::text, $2::uuid, $3::uuid, $4::text, $5::text, $6::text, decode($7::text, 'hex'))
on conflict do nothing
returning message_key::text as message_key, ${BACKEND}`,
		takeMany: `
with taken as (
  insert into ${schema}.receipts (consumer, message_key, token, source, id, type, fingerprint)
  select $1::text, m.message_key, $2::uuid, m.source, m.id, m.type, decode(m.fingerprint, 'hex')
  from unnest($3::text::uuid[], $4::text::text[], $5::text::text[], $6::text::text[], $7::text::text[])
    as m (message_key, source, id, type, fingerprint)
  order by m.message_key
  on conflict do nothing
  returning message_key
)
select case when count(*) = $8::integer then 'all' else string_agg(message_key::text, ',') end as message_key, ${BACKEND}
from taken`,
		receipts: `
select message_key::text as message_key, token::text as token, source, id, type,
  encode(fingerprint, 'hex') as fingerprint, ${MS$1("taken_at")} as taken_at
from ${schema}.receipts where consumer = $1::text and message_key = any ($2::text::uuid[])`,
		lockSkip: `
select seq::text as seq, ${BACKEND} from ${schema}.inbox
where seq = any ($1::text::bigint[]) order by inbox.seq for update skip locked`,
		lockWait: `
select seq::text as seq, ${BACKEND} from ${schema}.inbox
where seq = any ($1::text::bigint[]) order by inbox.seq for update`,
		claimSkip: `
with mine as (
  select seq from ${schema}.inbox where seq = any ($1::text::bigint[]) order by inbox.seq for update skip locked
)
delete from ${schema}.inbox using mine where inbox.seq = mine.seq
returning inbox.seq::text as seq, ${BACKEND}`,
		claimWait: `
with mine as (
  select seq from ${schema}.inbox where seq = any ($1::text::bigint[]) order by inbox.seq for update
)
delete from ${schema}.inbox using mine where inbox.seq = mine.seq
returning inbox.seq::text as seq, ${BACKEND}`,
		terminate: `
select pg_terminate_backend(pid) from pg_stat_activity
where pid = $1::integer and backend_xid::text = $2::text`,
		deleteInbox: `delete from ${schema}.inbox where seq = any ($1::text::bigint[])`,
		insertInbox: `
insert into ${schema}.inbox
  (consumer, message_key, source, id, type, key, attributes, data, fingerprint, attempts, starts, available_at, error)
select m.consumer, m.message_key, m.source, m.id, m.type, m.key, m.attributes, m.data, decode(m.fingerprint, 'hex'),
  m.attempts, m.starts, ${LATER$2("m.delay_ms")}, m.error
from unnest($1::text::text[], $2::text::uuid[], $3::text::text[], $4::text::text[], $5::text::text[], $6::text::text[],
  $7::text::text[], $8::text::bytea[], $9::text::text[], $10::text::integer[], $11::text::integer[],
  $12::text::float8[], $13::text::text[])
  with ordinality as m (consumer, message_key, source, id, type, key, attributes, data, fingerprint,
    attempts, starts, delay_ms, error, place)
order by m.place`,
		insertFailed: `
insert into ${schema}.failed
  (consumer, message_key, source, id, type, key, attributes, data, fingerprint, attempts, reason, error)
select m.consumer, m.message_key, m.source, m.id, m.type, m.key, m.attributes, m.data, decode(m.fingerprint, 'hex'),
  m.attempts, m.reason, m.error
from unnest($1::text::text[], $2::text::uuid[], $3::text::text[], $4::text::text[], $5::text::text[], $6::text::text[],
  $7::text::text[], $8::text::bytea[], $9::text::text[], $10::text::integer[], $11::text::text[], $12::text::text[])
  as m (consumer, message_key, source, id, type, key, attributes, data, fingerprint, attempts, reason, error)
on conflict do nothing`,
		insertOutbox: `
insert into ${schema}.outbox
  (relay, message_key, source, id, type, key, attributes, data, fingerprint, available_at)
select m.relay, m.message_key, m.source, m.id, m.type, m.key, m.attributes, m.data, decode(m.fingerprint, 'hex'),
  ${LATER$2("m.delay_ms")}
from unnest($1::text::text[], $2::text::uuid[], $3::text::text[], $4::text::text[], $5::text::text[], $6::text::text[],
  $7::text::text[], $8::text::bytea[], $9::text::text[], $10::text::float8[])
  with ordinality as m (relay, message_key, source, id, type, key, attributes, data, fingerprint, delay_ms, place)
order by m.place`,
		writeLocal: `
with m as (
  select * from unnest($1::text::uuid[], $2::text::text[], $3::text::text[], $4::text::text[], $5::text::text[],
    $6::text::text[], $7::text::bytea[], $8::text::text[], $9::text::float8[])
    with ordinality as m (message_key, source, id, type, key, attributes, data, fingerprint, delay_ms, place)
), listening as (
  select type, consumer from ${schema}.subscriptions
  union
  select known.type, known.consumer from unnest($10::text::text[], $11::text::text[]) as known (type, consumer)
), target as (
  select m.*, listening.consumer from m join listening on listening.type = m.type
), receipt as (
  insert into ${schema}.receipts (consumer, message_key, token, source, id, type, fingerprint)
  select consumer, message_key, $12::uuid, source, id, type, decode(fingerprint, 'hex') from target
  order by consumer, message_key
  on conflict do nothing
  returning consumer, message_key
), delivered as (
  insert into ${schema}.inbox
    (consumer, message_key, source, id, type, key, attributes, data, fingerprint, available_at)
  select consumer, message_key, source, id, type, key, attributes, data, decode(fingerprint, 'hex'), ${LATER$2("delay_ms")}
  from target join receipt using (consumer, message_key)
  order by place, consumer
)
select count(target.consumer) as consumers, count(receipt.consumer) as fresh
from m left join target using (place)
  left join receipt on receipt.consumer = target.consumer and receipt.message_key = target.message_key
group by place order by place`,
		due: `
update ${schema}.inbox set starts = starts + 1, available_at = ${LATER$2("$1::float8")}
where seq in (
  select seq from ${schema}.inbox
  where consumer = $2::text and type = any ($3::text::text[]) and available_at <= now()
    and (starts > 0) = $4::boolean and seq <> all ($5::text::bigint[])
  order by available_at, inbox.seq limit $6::integer for update skip locked)
returning ${INBOX$2}`,
		nextDue: `
select ${MS$1("min(available_at) - now()")} as ms from ${schema}.inbox
where consumer = $1::text and type = any ($2::text::text[])`,
		inFlight: `
select 1 as one from ${schema}.inbox where consumer = $1::text and type = any ($2::text::text[]) and starts > 0 limit 1`,
		reschedule: `
update ${schema}.inbox set attempts = $1::integer, lost = $2::integer, starts = 0,
  available_at = ${LATER$2("$3::float8")}, error = $4::text
where seq = $5::bigint`,
		copyToFailed: `
insert into ${schema}.failed
  (consumer, message_key, source, id, type, key, attributes, data, fingerprint, attempts, reason, error)
select consumer, message_key, source, id, type, key, attributes, data, fingerprint, $1::integer, $2::text, $3::text
from ${schema}.inbox where seq = $4::bigint
on conflict do nothing`,
		inboxRow: `
select ${INBOX$2} from ${schema}.inbox where consumer = $1::text and message_key = $2::uuid order by inbox.seq limit 1`,
		subscribe: `
insert into ${schema}.subscriptions (consumer, type) values ($1::text, $2::text) on conflict do nothing`,
		subscription: `select 1 as one from ${schema}.subscriptions where consumer = $1::text and type = $2::text`,
		failedList: `
select seq::text as seq, consumer, ${MESSAGE$2}, attempts, reason, error, ${MS$1("failed_at")} as failed_at
from ${schema}.failed, (values ($1::text, $2::text, $3::text, $4::bigint)) as f (consumer_, type_, reason_, before_)
where (f.consumer_ is null or consumer = f.consumer_) and (f.type_ is null or type = f.type_)
  and (f.reason_ is null or reason = f.reason_) and (f.before_ is null or failed.seq < f.before_)
order by failed.seq desc limit $5::integer`,
		failedGet: `
select seq::text as seq, consumer, ${MESSAGE$2}, attempts, reason, error, ${MS$1("failed_at")} as failed_at
from ${schema}.failed where seq = $1::bigint`,
		failedLock: `select seq::text as seq from ${schema}.failed where seq = $1::bigint for update`,
		copyToInbox: `
insert into ${schema}.inbox (consumer, message_key, source, id, type, key, attributes, data, fingerprint, available_at)
select consumer, message_key, source, id, type, key, attributes, data, fingerprint, clock_timestamp()
from ${schema}.failed where seq = $1::bigint`,
		deleteFailed: `delete from ${schema}.failed where seq = $1::bigint`,
		statusConsumers: `
select consumer, sum(receipts) as receipts, sum(waiting) as waiting, sum(retrying) as retrying, sum(failed) as failed
from (
  select consumer, count(*) as receipts, 0 as waiting, 0 as retrying, 0 as failed from ${schema}.receipts group by consumer
  union all
  select consumer, 0, count(*) filter (where attempts = 0), count(*) filter (where attempts > 0), 0
  from ${schema}.inbox group by consumer
  union all
  select consumer, 0, 0, 0, count(*) from ${schema}.failed group by consumer
) as counts
group by consumer order by consumer`,
		statusOutbox: `select count(*) as outbox, ${MS$1("min(created_at)")} as oldest from ${schema}.outbox`,
		trace: [
			`select 'receipt' as place, consumer, source, type, ${MS$1("taken_at")} as at from ${schema}.receipts where id = $1::text`,
			`
select 'inbox' as place, consumer, source, type, ${MS$1("created_at")} as at, attempts, ${MS$1("available_at")} as due_at, error
from ${schema}.inbox where id = $1::text`,
			`select 'outbox' as place, relay, source, type, ${MS$1("created_at")} as at from ${schema}.outbox where id = $1::text`,
			`
select 'failed' as place, seq::text as seq, consumer, source, type, ${MS$1("failed_at")} as at, attempts, reason, error
from ${schema}.failed where id = $1::text`
		]
	};
}
// src/stores/postgres/index.ts
function postgres(given, schemaOptions = {}) {
	if (typeof given === "object" && given !== null && "transaction" in given) {
		noOthers("options", schemaOptions, ["schema"]);
		return new SqlStore(given, dialect$2(quoted(schemaOptions)));
	}
	noOthers("options", given, [
		"pool",
		"url",
		"max",
		"schema"
	]);
	return new SqlStore(connectionOf$1(given), dialect$2(quoted(given)));
}
/** Quoted, so that a word of SQL can be a schema as well. */
function quoted({ schema = "hapax" }) {
	return `"${identifier("schema", schema)}"`;
}
function connectionOf$1(options) {
	if ("pool" in options) {
		const { pool } = options;
		if (typeof pool?.connect !== "function") expected("pool", "a pool of pg", pool);
		listen(pool);
		return new PgConnection(() => Promise.resolve(pool), () => Promise.resolve());
	}
	const { url, max = 10 } = options;
	if (typeof url !== "string" || !/^postgres(ql)?:\/\//.test(url)) expected("url", "a postgres:// URL", url && "(not shown)");
	let opened;
	const open = () => {
		opened ??= openPool$1(url, max);
		return opened;
	};
	return new PgConnection(open, async () => (await opened)?.end());
}
async function openPool$1(url, max) {
	const pool = new (await (import("pg").catch((cause) => {
		throw new HapaxError("client-missing", "postgres({ url }) needs the package pg: npm install pg", { cause });
	}))).default.Pool({
		connectionString: url,
		max,
		connectionTimeoutMillis: 1e4,
		keepAlive: true,
		application_name: "hapax"
	});
	listen(pool);
	return pool;
}
/** An idle connection that breaks is replaced by the next query; without a listener it would end the process. */
function listen(pool) {
	pool.on?.("error", () => {});
}
// src/stores/mysql/errors.ts
/** Error numbers of MySQL and MariaDB by what they mean for the message. */
const CLASSES$1 = {
	1213: "conflict",
	1020: "conflict",
	1412: "conflict",
	3101: "conflict",
	3572: "conflict",
	1205: "lock-timeout",
	1305: "gone",
	1049: "no-schema",
	1146: "no-schema",
	1021: "lost",
	1030: "lost",
	1037: "lost",
	1038: "lost",
	1040: "lost",
	1041: "lost",
	1047: "lost",
	1053: "lost",
	1114: "lost",
	1180: "lost",
	1203: "lost",
	1206: "lost",
	1226: "lost",
	1317: "lost",
	1792: "lost",
	1836: "lost",
	1927: "lost",
	3168: "lost",
	3169: "lost",
	4031: "lost"
};
/** ER_NET_PACKET_TOO_LARGE: the server closes the link as well, but it would refuse the same statement on any other. */
const PACKET_TOO_LARGE = 1153;
/** ER_OPTION_PREVENTS_STATEMENT: with the option read_only, the primary has become a replica. */
const OPTION_PREVENTS = 1290;
const LINK_CODES = /^(ECONN|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|ENOENT|PROTOCOL_|HANDSHAKE_|POOL_)/;
const DRIVER_MESSAGES = /in closed state|Pool is closed|Queue limit reached|No connections available/;
/** What an error of the server or of `mysql2` means; ORMs wrap such errors, so causes are looked at as well. */
function classify$1(error) {
	return classOfCauses(error, classOf$1);
}
function classOf$1({ errno, code, sqlState, message }) {
	if (typeof sqlState === "string") {
		if (errno === OPTION_PREVENTS && /read.only/.test(String(message))) return "lost";
		if (errno === PACKET_TOO_LARGE) return "other";
		if (sqlState.startsWith("08")) return "lost";
		return CLASSES$1[Number(errno)] ?? (sqlState === "40001" ? "conflict" : "other");
	}
	if (typeof code === "string" && LINK_CODES.test(code)) return "lost";
	return typeof message === "string" && DRIVER_MESSAGES.test(message) ? "lost" : "other";
}
/**
* Whether the server itself answered with an error that leaves no doubt: then a commit is known not to have happened.
* After KILL, a shutdown or a failure of the storage engine there is doubt.
*/
function answered$1(error) {
	const { sqlState } = error;
	return typeof sqlState === "string" && sqlState !== "" && classify$1(error) !== "lost";
}
/** What an error of a statement makes of its transaction. */
function doomOf(error) {
	const kind = classify$1(error);
	if (kind === "lock-timeout") return "conflict";
	return kind === "conflict" || kind === "lost" ? kind : void 0;
}
// src/stores/mysql/mysql2.ts
/** The promise form of what may be in callback style. */
function promised(given) {
	return "promise" in given && typeof given.promise === "function" ? given.promise() : given;
}
// src/stores/mysql/batch.ts
/** Rows of one statement at most. */
const MAX_ROWS = 500;
/** A multi-row insert, as several where one would be too large for the server. */
function inserts(text, rows) {
	return split(rows).map((part) => ({
		text: `${text.head} ${part.map(() => text.row).join(", ")} ${text.tail}`,
		params: part.flat()
	}));
}
function split(rows) {
	const parts = [];
	let bytes = Number.POSITIVE_INFINITY;
	for (const row of rows) {
		const size = row.reduce((sum, param) => sum + sizeOf(param), 0);
		const last = parts.at(-1);
		if (last !== void 0 && last.length < MAX_ROWS && bytes + size <= 4194304) {
			last.push(row);
			bytes += size;
		} else {
			parts.push([row]);
			bytes = size;
		}
	}
	return parts;
}
/** In the text of a statement, bytes travel as two hexadecimal digits each. */
function sizeOf(param) {
	return param instanceof Uint8Array ? 2 * param.byteLength + 4 : 24;
}
/** Lists of values in parts of a statement's size. */
function chunks(values) {
	const parts = [];
	for (let from = 0; from < values.length; from += MAX_ROWS) parts.push(values.slice(from, from + MAX_ROWS));
	return parts;
}
// src/stores/mysql/session.ts
/** By the link itself: a pool wraps it anew each time it hands it out. */
const sessions = /* @__PURE__ */ new WeakMap();
function linkOf(client) {
	return client.connection ?? client;
}
/** What is known about the session without asking. */
function knownSession(client) {
	return sessions.get(linkOf(client));
}
/** The session of a link, asked once for each. */
async function sessionOf(client) {
	const known = knownSession(client);
	if (known !== void 0) return known;
	const [answer] = await client.query({
		sql: QUESTION,
		rowsAsArray: false,
		nestTables: false,
		typeCast
	});
	const row = answer[0];
	const session = {
		mariadb: /mariadb/i.test(String(row?.["version"])),
		maxPacket: Number(row?.["packet"]),
		autocommit: Number(row?.["autocommit"]) === 1
	};
	sessions.set(linkOf(client), session);
	return session;
}
const QUESTION = "select version() as version, @@max_allowed_packet as packet, @@autocommit as autocommit";
/** The settings of the pool do not reach the answer. */
const typeCast = (_field, next) => next();
const SERVER_STATUS_AUTOCOMMIT = 2;
/** Every answer without rows says whether the session commits by itself: a handler may have changed it. */
function learn(client, status) {
	const known = knownSession(client);
	if (known !== void 0 && status !== void 0) known.autocommit = (status & SERVER_STATUS_AUTOCOMMIT) !== 0;
}
// src/stores/mysql/send.ts
/**
* Sends a statement of hapax as text: multi-row inserts would only fill the cache of prepared statements.
* The settings make the answer independent of how the pool was set up.
*/
async function send(client, { text, params }) {
	const query = {
		sql: text,
		values: params.map(checked$1),
		rowsAsArray: false,
		nestTables: false,
		typeCast
	};
	const [answer] = await (params.reduce((sum, param) => sum + sizeOf(param), text.length) <= Math.min(4194304, knownSession(client)?.maxPacket ?? 4194304) ? client.query(query) : sendLarge(client, query, params));
	if (Array.isArray(answer)) return {
		rows: answer,
		affected: answer.length
	};
	const { affectedRows, serverStatus } = answer;
	learn(client, serverStatus);
	return {
		rows: [],
		affected: affectedRows
	};
}
/** Prepared, because there bytes travel as they are. */
async function sendLarge(client, query, params) {
	await sessionOf(client);
	const { execute } = client;
	const each = execute === void 0 ? sizeOf : bytesOf;
	assertFits(client, params.reduce((sum, param) => sum + each(param), query.sql.length));
	return execute === void 0 ? client.query(query) : execute.call(client, query);
}
/** Room for what surrounds the values. */
const MARGIN = 1024;
/** Refuses what the server does not take at once: it would cut the link, and so on every other. */
function assertFits(client, bytes) {
	const max = knownSession(client)?.maxPacket ?? Number.POSITIVE_INFINITY;
	if (bytes + MARGIN <= max) return;
	throw new HapaxError("too-large", `expected a statement that fits into max_allowed_packet of the server, ${max} bytes, got ${bytes}`, { fields: {
		bytes,
		max
	} });
}
function bytesOf(param) {
	return param instanceof Uint8Array ? param.byteLength + 16 : 24;
}
/** `mysql2` would write an object into the text as SQL of its own. */
function checked$1(param) {
	if (typeof param !== "object" || param === null || param instanceof Uint8Array) return param;
	throw new TypeError("expected a parameter to be a string, a number, bytes or null");
}
// src/stores/mysql/statements.ts
/** A number of placeholders. */
const MANY = (count) => Array(count).fill("?").join(", ");
/** A seq is text in JavaScript; compared as text, the server would round it. */
const SEQ$1 = "cast(? as signed)";
const SEQS = (count) => Array(count).fill(SEQ$1).join(", ");
/** By key, even where a table is so small that a scan seems cheaper: a scan locks the rows of others, and deadlocks. */
const BY_KEY = "force index (primary)";
const MS = (time) => `timestampdiff(microsecond, '1970-01-01', ${time}) / 1000`;
/** UTC whatever the time zone of the session is. */
const NOW$1 = "utc_timestamp(6)";
const LATER$1 = `${NOW$1} + interval ? microsecond`;
const MESSAGE$1 = "m.message_key, m.source, m.id, m.type, m.`key`, m.attributes, m.data, m.fingerprint";
const INBOX$1 = `cast(m.seq as char) as seq, m.consumer, ${MESSAGE$1}, m.attempts, m.lost`;
const FAILED = `cast(m.seq as char) as seq, m.consumer, ${MESSAGE$1}, m.attempts, m.reason, m.error, ${MS("m.failed_at")} as failed_at`;
const COLUMNS = "consumer, message_key, source, id, type, `key`, attributes, data, fingerprint";
/** A lock timeout in whole seconds, as the servers have it; 0 would mean not to wait at all. */
function seconds(ms) {
	return Math.max(1, Math.ceil(ms / 1e3));
}
/** Marks a statement that only MySQL runs; to MariaDB it is empty. */
const MYSQL_ONLY = "/*!80000";
/** The lock timeout of one statement, on MariaDB. */
const LOCK_WAIT = (timeout) => `/*M!100100 set statement innodb_lock_wait_timeout = ${timeout} for */`;
/** MySQL has it only by session. The first value that a session had is remembered, whatever happens in between. */
const lockWaitSet = (ms) => `${MYSQL_ONLY} set @hapax_lock_wait = coalesce(@hapax_lock_wait, @@session.innodb_lock_wait_timeout), session innodb_lock_wait_timeout = ${seconds(ms)} */`;
const LOCK_WAIT_RESET = `${MYSQL_ONLY} set session innodb_lock_wait_timeout = cast(coalesce(@hapax_lock_wait, @@session.innodb_lock_wait_timeout) as unsigned) */`;
/** Every statement, whole and by name, valid on MariaDB 10.6 and MySQL 8. */
function statements$1(prefix) {
	const [receipts, inbox, outbox, failed] = [
		"receipts",
		"inbox",
		"outbox",
		"failed"
	].map((name) => prefix + name);
	const [subscriptions, applied] = [`${prefix}subscriptions`, `${prefix}migrations`];
	const lockName = `concat('hapax_', sha1(concat(database(), '.', ?)))`;
	const receipt = {
		head: `insert into ${receipts} (consumer, message_key, token, fingerprint, source, id, type, taken_at) values`,
		row: `(?, ?, ?, ?, ?, ?, ?, ${NOW$1})`,
		tail: "on duplicate key update message_key = message_key"
	};
	return {
		migrationLock: `select if(get_lock(${lockName}, 60) = 1, 1, (select 1 union select 2)) as locked`,
		migrationUnlock: `do release_lock(${lockName})`,
		migrationTable: `
create table if not exists ${applied} (
  version int not null primary key,
  name varbinary(255) not null,
  checksum varbinary(64) not null,
  applied_at datetime(6) not null
) engine = innodb row_format = dynamic`,
		migrationRows: `select version, checksum from ${applied}`,
		migrationDone: `insert into ${applied} (version, name, checksum, applied_at) values (?, ?, ?, ${NOW$1})`,
		receipt,
		take: (timeout) => ({
			...receipt,
			head: `${LOCK_WAIT(timeout)} ${receipt.head}`
		}),
		taken: (count) => `
select message_key, token, connection_id() as pid from ${receipts} ${BY_KEY}
where consumer = ? and message_key in (${MANY(count)})`,
		receipts: (count) => `
select message_key, token, source, id, type, fingerprint, ${MS("taken_at")} as taken_at
from ${receipts} ${BY_KEY} where consumer = ? and message_key in (${MANY(count)})`,
		lockSkip: (count, timeout) => `
${LOCK_WAIT(timeout)} select cast(m.seq as char) as seq, connection_id() as pid
from (select seq from ${inbox} where seq in (${SEQS(count)}) limit ${count}) as there
  straight_join ${inbox} as m ${BY_KEY} on m.seq = there.seq
order by m.seq for update skip locked`,
		lockSkipSerializable: (count) => `
select cast(m.seq as char) as seq, connection_id() as pid from ${inbox} as m ${BY_KEY}
where m.seq in (${SEQS(count)}) order by m.seq for update skip locked`,
		lockWait: (count, timeout) => `
${LOCK_WAIT(timeout)} select cast(m.seq as char) as seq, connection_id() as pid from ${inbox} as m ${BY_KEY}
where m.seq in (${SEQS(count)}) order by m.seq for update`,
		terminate: "kill ?",
		deleteInbox: (count) => `delete m from ${inbox} as m ${BY_KEY} where m.seq in (${SEQS(count)})`,
		insertInbox: {
			head: `insert into ${inbox} (${COLUMNS}, attempts, starts, created_at, available_at, error) values`,
			row: `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ${NOW$1}, ${LATER$1}, ?)`,
			tail: ""
		},
		insertFailed: {
			head: `insert into ${failed} (${COLUMNS}, attempts, reason, error, failed_at) values`,
			row: `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ${NOW$1})`,
			tail: "on duplicate key update message_key = message_key"
		},
		insertOutbox: {
			head: `
insert into ${outbox}
  (relay, message_key, source, id, type, \`key\`, attributes, data, fingerprint, created_at, available_at) values`,
			row: `(?, ?, ?, ?, ?, ?, ?, ?, ?, ${NOW$1}, ${LATER$1})`,
			tail: ""
		},
		listening: (count) => `
select type, consumer from ${subscriptions} ${BY_KEY} where type in (${MANY(count)}) lock in share mode`,
		fresh: (count) => `
select message_key from ${receipts} ${BY_KEY} where consumer = ? and token = ? and message_key in (${MANY(count)})`,
		due: (types, except, limit, started) => `
select ${INBOX$1}, m.starts + 1 as starts from ${inbox} as m force index (inbox_due)
where m.consumer = ? and m.type in (${MANY(types)}) and m.available_at <= ${NOW$1} and m.starts ${started ? ">" : "="} 0${except === 0 ? "" : ` and m.seq not in (${SEQS(except)})`}
order by m.available_at, m.seq limit ${Math.trunc(limit)} for update skip locked`,
		started: (count) => `update ${inbox} ${BY_KEY} set starts = starts + 1, available_at = ${LATER$1} where seq in (${SEQS(count)})`,
		nextDue: (types) => `
select timestampdiff(microsecond, ${NOW$1}, available_at) / 1000 as ms from ${inbox}
where consumer = ? and type in (${MANY(types)}) order by available_at limit 1`,
		inFlight: (types) => `
select 1 as one from ${inbox} where consumer = ? and type in (${MANY(types)}) and starts > 0 limit 1`,
		reschedule: `
update ${inbox} set attempts = ?, lost = ?, starts = 0, available_at = ${LATER$1}, error = ? where seq = ${SEQ$1}`,
		copyToFailed: `
insert into ${failed} (${COLUMNS}, attempts, reason, error, failed_at)
select m.consumer, ${MESSAGE$1}, ?, ?, ?, ${NOW$1} from ${inbox} as m where m.seq = ${SEQ$1}
on duplicate key update ${failed}.message_key = ${failed}.message_key`,
		inboxRow: `
select ${INBOX$1}, m.starts from ${inbox} as m where m.consumer = ? and m.message_key = ? order by m.seq limit 1`,
		subscribe: `
insert into ${subscriptions} (type, consumer) values (?, ?) on duplicate key update consumer = consumer`,
		subscription: `select 1 as one from ${subscriptions} where type = ? and consumer = ?`,
		failedList: (limit) => `
select ${FAILED} from ${failed} as m
  join (select ? as consumer_, ? as type_, ? as reason_, ${SEQ$1} as before_) as f
where (f.consumer_ is null or m.consumer = f.consumer_) and (f.type_ is null or m.type = f.type_)
  and (f.reason_ is null or m.reason = f.reason_) and (f.before_ is null or m.seq < f.before_)
order by m.seq desc limit ${Math.trunc(limit)}`,
		failedGet: `select ${FAILED} from ${failed} as m where m.seq = ${SEQ$1}`,
		failedLock: `select cast(m.seq as char) as seq from ${failed} as m where m.seq = ${SEQ$1} for update`,
		copyToInbox: `
insert into ${inbox} (${COLUMNS}, created_at, available_at)
select m.consumer, ${MESSAGE$1}, ${NOW$1}, ${NOW$1} from ${failed} as m where m.seq = ${SEQ$1}`,
		deleteFailed: `delete from ${failed} where seq = ${SEQ$1}`,
		statusConsumers: `
select consumer, sum(receipts) as receipts, sum(waiting) as waiting, sum(retrying) as retrying, sum(failed) as failed
from (
  select consumer, count(*) as receipts, 0 as waiting, 0 as retrying, 0 as failed from ${receipts} group by consumer
  union all
  select consumer, 0, sum(attempts = 0), sum(attempts > 0), 0 from ${inbox} group by consumer
  union all
  select consumer, 0, 0, 0, count(*) from ${failed} group by consumer
) as counts
group by consumer order by consumer`,
		statusOutbox: `select count(*) as outbox, ${MS("min(created_at)")} as oldest from ${outbox}`,
		trace: [
			`select 'receipt' as place, consumer, source, type, ${MS("taken_at")} as at from ${receipts} where id = ?`,
			`
select 'inbox' as place, consumer, source, type, ${MS("created_at")} as at, attempts, ${MS("available_at")} as due_at, error
from ${inbox} where id = ?`,
			`select 'outbox' as place, relay, source, type, ${MS("created_at")} as at from ${outbox} where id = ?`,
			`
select 'failed' as place, cast(m.seq as char) as seq, m.consumer, m.source, m.type, ${MS("m.failed_at")} as at, m.attempts,
  m.reason, m.error
from ${failed} as m where m.id = ?`
		]
	};
}
// src/stores/mysql/transaction.ts
/**
* One transaction on one connection, as handlers have it. After a deadlock the server has rolled back and every further
* statement would commit by itself, so a doomed transaction takes no more, neither from the handler nor from hapax.
*/
var MysqlTransaction = class {
	watch = new TransactionWatch(doomOf);
	/** For the statements of hapax. */
	executor;
	#raw;
	#guarded;
	constructor(client) {
		this.#raw = client;
		this.executor = { query: async (text, params) => {
			this.#assertUsable();
			return this.watch.track(send(client, {
				text,
				params
			}));
		} };
	}
	async query(text, params = []) {
		this.#assertUsable();
		assertFits(this.#raw, params.reduce((sum, param) => sum + lengthOf(param), text.length));
		const answer = params.length === 0 ? this.#raw.query(text) : this.#raw.execute(text, params);
		const [rows] = await this.watch.track(answer);
		if (Array.isArray(rows)) return {
			rows,
			rowCount: rows.length
		};
		return {
			rows: [],
			rowCount: rows.affectedRows
		};
	}
	get client() {
		this.#guarded ??= this.watch.guard(this.#raw, () => this.#assertUsable(), ["connection"]);
		return this.#guarded;
	}
	#assertUsable() {
		this.watch.assertOpen();
		this.watch.assertNotDoomed();
	}
};
/** The size of a value that may be a large one. */
function lengthOf(param) {
	return typeof param === "string" || param instanceof Uint8Array ? param.length : 0;
}
// src/stores/mysql/connection.ts
/** Transactions on a pool of `mysql2`, one round trip for each statement. */
var MysqlConnection = class {
	features = {
		name: "mysql",
		roundTrips: 6,
		lateUse: "refused",
		unawaited: "detected"
	};
	#pool;
	#close;
	constructor(pool, close) {
		this.#pool = pool;
		this.#close = close;
	}
	async transaction(options, work) {
		const client = await this.#acquire(options.signal);
		options.acquired?.();
		const run = new Run$1(client);
		const onError = (error) => run.tx.watch.lose(error);
		client.on("error", onError);
		try {
			return await untilAborted(options.signal, () => run.steps(options, work), () => run.destroy());
		} finally {
			run.tx.watch.close();
			giveBack(client, onError, run.broken);
		}
	}
	executor(tx) {
		if (tx instanceof MysqlTransaction) return tx.executor;
		const client = promised(tx);
		return { query: (text, params) => send(client, {
			text,
			params
		}) };
	}
	async assertTransaction(tx) {
		if (tx instanceof MysqlTransaction) return tx.watch.assertOpen();
		const { query } = tx ?? {};
		if (typeof query !== "function") throw notInTransaction(describe(tx));
		await probe(promised(tx));
	}
	async query(text, params) {
		const client = await this.#acquire();
		let broken = false;
		client.on("error", ignore);
		try {
			const session = await sessionOf(client);
			if (!session.autocommit) await send(client, ROLLBACK);
			const answer = await send(client, {
				text,
				params
			});
			if (!session.autocommit) await send(client, COMMIT);
			return answer;
		} catch (error) {
			broken = classify$1(error) === "lost" || knownSession(client)?.autocommit === false;
			throw error;
		} finally {
			giveBack(client, ignore, broken);
		}
	}
	close() {
		return this.#close();
	}
	/** A connection of the pool; an abort does not wait for it any longer. */
	async #acquire(signal) {
		signal?.throwIfAborted();
		const acquiring = (await this.#pool()).getConnection();
		if (signal === void 0) return acquiring;
		return new Promise((resolve, reject) => {
			const abort = () => reject(signal.reason);
			signal.addEventListener("abort", abort, { once: true });
			if (signal.aborted) abort();
			acquiring.then((client) => signal.aborted ? client.release() : resolve(client), reject);
			acquiring.finally(() => signal.removeEventListener("abort", abort)).catch(() => {});
		});
	}
};
/** One transaction on one connection. */
var Run$1 = class {
	/** The connection cannot be trusted any more. */
	broken = false;
	tx;
	#client;
	#mariadb = false;
	#opened = false;
	constructor(client) {
		this.#client = client;
		this.tx = new MysqlTransaction(client);
	}
	async steps({ isolation }, work) {
		try {
			const answers = await this.#begin(isolation, work.first);
			const { value, last } = await this.tx.watch.during(() => work.body(this.tx, answers));
			if (last === void 0) await this.#rollback();
			else await this.#commit(last);
			return value;
		} catch (error) {
			await this.#rollback();
			throw error;
		}
	}
	async #begin(isolation, first) {
		const { mariadb, autocommit } = await sessionOf(this.#client);
		this.#mariadb = mariadb;
		if (!autocommit) await this.#send("rollback");
		if (isolation !== void 0) await this.#send(`set transaction isolation level ${isolation}`);
		await this.#send("start transaction");
		const answers = [];
		for (const { text, params } of first) answers.push(await this.#send(text, params));
		this.#opened = true;
		return answers;
	}
	async #commit(last) {
		for (const { text, params } of last) await this.#send(text, params);
		await this.#send("commit");
	}
	async #rollback() {
		if (this.broken) return;
		try {
			await this.#send("rollback");
			if (!this.#opened) await this.#send(LOCK_WAIT_RESET);
		} catch {
			this.destroy();
		}
	}
	async #send(text, params = []) {
		if (this.#mariadb && text.startsWith("/*!80000")) return {
			rows: [],
			affected: 0
		};
		return send(this.#client, {
			text,
			params
		});
	}
	destroy() {
		this.broken = true;
		this.tx.watch.close();
		destroy(this.#client);
	}
};
const ROLLBACK = {
	text: "rollback",
	params: []
};
const COMMIT = {
	text: "commit",
	params: []
};
function ignore() {}
function giveBack(client, onError, broken) {
	if (broken) destroy(client);
	else client.off("error", onError);
	client.release();
}
function destroy(client) {
	client.destroy();
	const { connection } = client;
	connection?.stream?.destroy?.();
}
/** A savepoint does not last outside a transaction, so releasing it tells. */
async function probe(client) {
	try {
		await send(client, {
			text: "savepoint hapax_probe",
			params: []
		});
		await send(client, {
			text: "release savepoint hapax_probe",
			params: []
		});
	} catch (error) {
		if (classify$1(error) === "gone") throw notInTransaction("a connection that has not begun one", error);
		throw error;
	}
}
// src/stores/mysql/rows.ts
/** A plain text as bytes. */
function bytes(value) {
	return Buffer.from(value, "utf8");
}
/** A text of a message as bytes. */
function text(value) {
	return bytes(encodeText(value));
}
/** consumer, message_key, token, fingerprint, source, id, type: a row of receipts. */
function receipt$1(consumer, token, message) {
	const { messageKey, source, id, type, fingerprint } = message;
	return [
		...[
			bytes(consumer),
			uuidBytes(messageKey),
			uuidBytes(token),
			Buffer.from(fingerprint, "hex")
		],
		text(source),
		text(id),
		text(type)
	];
}
/** message_key, source, id, type, key, attributes, data, fingerprint: eight values of a row. */
function columns$1(message) {
	const { messageKey, source, id, type, key, attributes, data, fingerprint } = message;
	return [
		uuidBytes(messageKey),
		text(source),
		text(id),
		text(type),
		key === null ? null : text(key),
		bytes(attributes),
		Buffer.from(data.buffer, data.byteOffset, data.byteLength),
		Buffer.from(fingerprint, "hex")
	];
}
/** A delay as the servers take it. */
function microseconds(ms) {
	return Math.round(ms * 1e3);
}
// src/stores/mysql/local.ts
/** Who listens, receipts where there are none, and an inbox row for each receipt that is new. */
async function writeLocal(sql, executor, rows, token) {
	const listening = await consumersOf(sql, executor, rows);
	const targets = rows.map((row) => consumersFor(listening, row).map((consumer) => ({
		consumer,
		row
	})));
	const distinct = new Map(targets.flat().map((target) => [nameOf(target), target]));
	await insertReceipts(sql, executor, [...distinct.values()], token);
	const fresh = await freshNames(sql, executor, [...distinct.values()], token);
	const delivered = targets.map((each) => each.filter((target) => fresh.delete(nameOf(target))));
	await insertInbox(sql, executor, delivered.flat());
	return targets.map((each, index) => ({
		consumers: each.length,
		fresh: delivered[index]?.length ?? 0
	}));
}
/** The consumers that `subscriptions` has now, by type. */
async function consumersOf(sql, executor, rows) {
	const types = [...new Set(rows.map((row) => row.message.type))];
	const found = /* @__PURE__ */ new Map();
	for (const part of chunks(types)) {
		const answer = await executor.query(sql.listening(part.length), part.map(text));
		for (const row of answer.rows) {
			const type = asText(row["type"]);
			found.set(type, [...found.get(type) ?? [], asText(row["consumer"])]);
		}
	}
	return found;
}
function consumersFor(listening, row) {
	return [.../* @__PURE__ */ new Set([...listening.get(row.message.type) ?? [], ...row.consumers])].sort();
}
/** A target by consumer and message, in the order of the primary key. */
function nameOf({ consumer, row }) {
	return `${consumer}\0${row.message.messageKey}`;
}
async function insertReceipts(sql, executor, targets, token) {
	const receipts = targets.toSorted((a, b) => nameOf(a) < nameOf(b) ? -1 : 1).map(({ consumer, row }) => receipt$1(consumer, token, row.message));
	for (const { text, params } of inserts(sql.receipt, receipts)) await executor.query(text, params);
}
async function freshNames(sql, executor, targets, token) {
	const fresh = /* @__PURE__ */ new Set();
	for (const [consumer, own] of Map.groupBy(targets, (target) => target.consumer)) for (const part of chunks(own)) {
		const keys = part.map(({ row }) => uuidBytes(row.message.messageKey));
		const { rows } = await executor.query(sql.fresh(part.length), [
			bytes(consumer),
			uuidBytes(token),
			...keys
		]);
		for (const row of rows) fresh.add(`${consumer}\0${asUuid(row["message_key"])}`);
	}
	return fresh;
}
async function insertInbox(sql, executor, targets) {
	const values = targets.map(({ consumer, row }) => [
		bytes(consumer),
		...columns$1(row.message),
		0,
		0,
		microseconds(row.delayMs),
		null
	]);
	for (const { text, params } of inserts(sql.insertInbox, values)) await executor.query(text, params);
}
// src/stores/mysql/migrations.ts
/**
* The schema, step by step. A released step is never changed: add one. DDL commits by itself here, so every statement has
* to be one that can be repeated after a crash in the middle of a step.
*
* Text is stored as bytes: only they compare exactly, and no character set of a connection can change them. Texts of up to
* 2048 bytes may grow to three times that when they are encoded.
*/
function migrations$1(prefix) {
	return [{
		version: 1,
		name: "inbox and outbox",
		sql: [
			`create table if not exists ${prefix}receipts (
  consumer varbinary(255) not null,
  message_key binary(16) not null,
  token binary(16) not null,
  fingerprint binary(8) not null,
  taken_at datetime(6) not null,
  source varbinary(6148) not null,
  id varbinary(6148) not null,
  type varbinary(6148) not null,
  primary key (consumer, message_key)
) engine = innodb row_format = dynamic`,
			`create table if not exists ${prefix}inbox (
  seq bigint not null auto_increment primary key,
  created_at datetime(6) not null,
  available_at datetime(6) not null,
  message_key binary(16) not null,
  attempts int not null default 0,
  lost int not null default 0,
  starts int not null default 0,
  fingerprint binary(8) not null,
  consumer varbinary(255) not null,
  source varbinary(6148) not null,
  id varbinary(6148) not null,
  type varbinary(6148) not null,
  \`key\` varbinary(6148),
  attributes longblob not null,
  error longblob,
  data longblob not null,
  index inbox_due (consumer, available_at, seq),
  index inbox_message (message_key)
) engine = innodb row_format = dynamic`,
			`create table if not exists ${prefix}outbox (
  seq bigint not null auto_increment primary key,
  created_at datetime(6) not null,
  available_at datetime(6) not null,
  message_key binary(16) not null,
  fingerprint binary(8) not null,
  relay varbinary(255) not null,
  source varbinary(6148) not null,
  id varbinary(6148) not null,
  type varbinary(6148) not null,
  \`key\` varbinary(6148),
  attributes longblob not null,
  data longblob not null
) engine = innodb row_format = dynamic`,
			`create table if not exists ${prefix}failed (
  seq bigint not null auto_increment primary key,
  failed_at datetime(6) not null,
  message_key binary(16) not null,
  attempts int not null,
  fingerprint binary(8) not null,
  consumer varbinary(255) not null,
  source varbinary(6148) not null,
  id varbinary(6148) not null,
  type varbinary(6148) not null,
  \`key\` varbinary(6148),
  attributes longblob not null,
  reason varbinary(255) not null,
  error longblob not null,
  data longblob not null,
  unique index failed_message (consumer, message_key, fingerprint)
) engine = innodb row_format = dynamic`,
			`create table if not exists ${prefix}subscriptions (
  type varbinary(2048) not null,
  consumer varbinary(255) not null,
  primary key (type, consumer)
) engine = innodb row_format = dynamic`
		]
	}];
}
// src/stores/mysql/sql.ts
const NO_PARAMS$2 = [];
const plain$1 = (text) => ({
	text,
	params: NO_PARAMS$2
});
/**
* The statements of MariaDB and MySQL with one prefix, each valid on both. Every text goes as bytes, so that neither the
* character set of the connection nor an SQL mode such as NO_BACKSLASH_ESCAPES can change it.
*
* `idleTimeoutMs` is not kept: both servers know it only as a setting of the session (`idle_transaction_timeout`,
* `wait_timeout`), which would cost round trips and stay behind in the user's pool.
*/
function dialect$1(prefix) {
	const sql = statements$1(prefix);
	const lock = (seqs, locked, lockTimeoutMs, isolation) => {
		const skip = isolation === "serializable" ? sql.lockSkipSerializable : sql.lockSkip;
		return {
			text: (locked === "skip" ? skip : sql.lockWait)(seqs.length, seconds(lockTimeoutMs)),
			params: seqs
		};
	};
	return {
		name: "mysql",
		isolationLevels: [
			"read committed",
			"repeatable read",
			"serializable"
		],
		parallelWriters: true,
		ownTransactions: true,
		classify: classify$1,
		answered: answered$1,
		migrations: migrations$1(prefix),
		migrationLock: [{
			text: sql.migrationLock,
			params: [prefix]
		}],
		migrationUnlock: [{
			text: sql.migrationUnlock,
			params: [prefix]
		}],
		migrationTable: plain$1(sql.migrationTable),
		migrationRows: plain$1(sql.migrationRows),
		migrationDone: (version, name, checksum) => ({
			text: sql.migrationDone,
			params: [
				version,
				bytes(name),
				bytes(checksum)
			]
		}),
		settings: () => [],
		guardSet: [plain$1("savepoint hapax")],
		guardRelease: [plain$1("release savepoint hapax")],
		guardCheck: [plain$1("release savepoint hapax"), plain$1("savepoint hapax")],
		guardRollback: [plain$1("rollback to savepoint hapax")],
		take: (consumer, token, messages, lockTimeoutMs) => [
			plain$1(lockWaitSet(lockTimeoutMs)),
			...inserts(sql.take(seconds(lockTimeoutMs)), sorted(messages).map((message) => receipt$1(consumer, token, message))),
			...chunks(messages).map((part) => ({
				text: sql.taken(part.length),
				params: [bytes(consumer), ...part.map((message) => uuidBytes(message.messageKey))]
			})),
			plain$1(LOCK_WAIT_RESET)
		],
		taken: (answers, token) => takenKeys$1(answers, token),
		receipts: (consumer, keys) => ({
			text: sql.receipts(keys.length),
			params: [bytes(consumer), ...keys.map(uuidBytes)]
		}),
		claim: lock,
		claimDeletes: false,
		lock,
		backend: (answers) => backendOf(answers),
		terminate: ([pid]) => ({
			text: sql.terminate,
			params: [Number(pid)]
		}),
		deleteInbox: (seqs) => chunks(seqs).map((part) => ({
			text: sql.deleteInbox(part.length),
			params: part
		})),
		insertInbox: (rows) => inserts(sql.insertInbox, rows.map(({ consumer, message, attempts, starts, delayMs, error }) => [
			bytes(consumer),
			...columns$1(message),
			attempts,
			starts,
			microseconds(delayMs),
			error && bytes(JSON.stringify(error))
		])),
		insertFailed: (rows) => inserts(sql.insertFailed, rows.map(({ consumer, message, attempts, reason, error }) => [
			bytes(consumer),
			...columns$1(message),
			attempts,
			bytes(reason),
			bytes(JSON.stringify(error))
		])),
		insertOutbox: (rows) => inserts(sql.insertOutbox, rows.map(({ relay, message, delayMs }) => [
			bytes(relay),
			...columns$1(message),
			microseconds(delayMs)
		])),
		writeLocal: (executor, rows, token) => writeLocal(sql, executor, rows, token),
		due: async (_query, types, { limit, except, started: again, hideMs }, transaction) => {
			const rows = [];
			for (const [consumer, names] of types) {
				if (rows.length >= limit) break;
				if (names.length === 0) continue;
				const params = [
					bytes(consumer),
					...names.map(text),
					...except
				];
				const answer = await transaction({
					text: sql.due(names.length, except.length, limit - rows.length, again),
					params
				}, (found) => found.rows.length === 0 ? void 0 : started(sql, found, microseconds(hideMs)));
				rows.push(...answer.rows);
			}
			return {
				rows,
				affected: rows.length
			};
		},
		nextDue: (consumer, types) => ({
			text: sql.nextDue(types.length),
			params: [bytes(consumer), ...types.map(text)]
		}),
		inFlight: (consumer, types) => ({
			text: sql.inFlight(types.length),
			params: [bytes(consumer), ...types.map(text)]
		}),
		reschedule: ({ seq, attempts, lost, delayMs, error }) => ({
			text: sql.reschedule,
			params: [
				attempts,
				lost,
				microseconds(delayMs),
				bytes(JSON.stringify(error)),
				seq
			]
		}),
		copyToFailed: ({ seq, attempts, reason, error }) => ({
			text: sql.copyToFailed,
			params: [
				attempts,
				bytes(reason),
				bytes(JSON.stringify(error)),
				seq
			]
		}),
		inboxRow: (consumer, messageKey) => ({
			text: sql.inboxRow,
			params: [bytes(consumer), uuidBytes(messageKey)]
		}),
		subscribe: (consumer, type) => ({
			text: sql.subscribe,
			params: [text(type), bytes(consumer)]
		}),
		subscription: (consumer, type) => ({
			text: sql.subscription,
			params: [text(type), bytes(consumer)]
		}),
		failedList: ({ consumer, type, reason, before, limit }) => ({
			text: sql.failedList(limit),
			params: [
				consumer === void 0 ? null : bytes(consumer),
				type === void 0 ? null : text(type),
				reason === void 0 ? null : bytes(reason),
				before ?? null
			]
		}),
		failedGet: (seq) => ({
			text: sql.failedGet,
			params: [seq]
		}),
		failedLock: (seq) => ({
			text: sql.failedLock,
			params: [seq]
		}),
		copyToInbox: (seq) => ({
			text: sql.copyToInbox,
			params: [seq]
		}),
		deleteFailed: (seq) => ({
			text: sql.deleteFailed,
			params: [seq]
		}),
		statusConsumers: plain$1(sql.statusConsumers),
		statusOutbox: plain$1(sql.statusOutbox),
		trace: (id) => sql.trace.map((each) => ({
			text: each,
			params: [text(id)]
		}))
	};
}
/** Sorted, because two groups inserting in different order deadlock. */
function sorted(messages) {
	return messages.toSorted((a, b) => a.messageKey < b.messageKey ? -1 : 1);
}
/** A receipt with our token is one that we wrote: a token is used for one transaction only. */
function takenKeys$1(answers, token) {
	const rows = answers.flatMap((answer) => answer.rows);
	return new Set(rows.filter((row) => asUuid(row["token"]) === token).map((row) => asUuid(row["message_key"])));
}
function backendOf(answers) {
	const row = answers.find((answer) => answer.rows.length > 0)?.rows[0];
	return row && [Number(row["pid"])];
}
function started(sql, { rows }, hideUs) {
	return [{
		text: sql.started(rows.length),
		params: [hideUs, ...rows.map((row) => String(row["seq"]))]
	}];
}
// src/stores/mysql/index.ts
function mysql(given, tables = {}) {
	if (typeof given === "object" && given !== null && "transaction" in given) {
		noOthers("options", tables, ["prefix"]);
		return new SqlStore(given, dialect$1(identifier("prefix", tables.prefix ?? "hapax_")));
	}
	noOthers("options", given, [
		"pool",
		"url",
		"max",
		"prefix"
	]);
	const prefix = identifier("prefix", given.prefix ?? "hapax_");
	return new SqlStore(connectionOf(given), dialect$1(prefix));
}
function connectionOf(options) {
	if ("pool" in options) {
		const { pool } = options;
		if (typeof pool?.getConnection !== "function") expected("pool", "a pool of mysql2", pool);
		const own = promised(pool);
		return new MysqlConnection(() => Promise.resolve(own), () => Promise.resolve());
	}
	const { url } = options;
	const max = positiveInteger("max", options.max, 10);
	if (typeof url !== "string" || !/^(mysql|mariadb):\/\//.test(url)) expected("url", "a mysql:// URL", url && "(not shown)");
	let opened;
	const open = () => {
		opened ??= openPool(url, max);
		return opened;
	};
	return new MysqlConnection(open, async () => (await opened)?.end());
}
const CONNECT_MS = 1e4;
const END_MS = 5e3;
async function openPool(url, max) {
	const pool = (await import("mysql2/promise").catch((cause) => {
		throw new HapaxError("client-missing", "mysql({ url }) needs the package mysql2: npm install mysql2", { cause });
	})).createPool({
		uri: url,
		connectionLimit: max,
		connectTimeout: CONNECT_MS,
		enableKeepAlive: true
	});
	pool.on("connection", (connection) => void connection.on("error", () => {}));
	return {
		getConnection: () => acquire(pool),
		end: () => Promise.race([pool.end(), after(END_MS)])
	};
}
/** A connection in time: the pool of mysql2 itself would wait for ever. */
function acquire(pool) {
	const acquiring = pool.getConnection();
	return new Promise((resolve, reject) => {
		let late = false;
		const timer = setTimeout(() => {
			late = true;
			reject(Object.assign(/* @__PURE__ */ new Error(`no connection within ${CONNECT_MS} ms`), { code: "ETIMEDOUT" }));
		}, CONNECT_MS);
		acquiring.then((client) => late ? client.release() : resolve(client), reject).finally(() => clearTimeout(timer));
	});
}
function after(ms) {
	return new Promise((resolve) => {
		setTimeout(resolve, ms).unref();
	});
}
// src/core/queue.ts
/** The turns that the code running now is inside of. */
const inside = new AsyncLocalStorage();
/** The right to use what a queue guards, until it is ended. */
var Turn = class {
	queue;
	/** The turn in which this one was asked for; of another queue. */
	outer;
	ended = false;
	#next;
	constructor(queue, outer, next) {
		this.queue = queue;
		this.outer = outer;
		this.#next = next;
	}
	/** Runs code that is known to be inside this turn. */
	run(code) {
		return inside.run(this, code);
	}
	end() {
		if (this.ended) return;
		this.ended = true;
		this.#next();
	}
};
/** Lets one user at a time in, in the order of arrival; for stores with a single writer. */
var Queue = class {
	#clock;
	#waiting = /* @__PURE__ */ new Set();
	#turn;
	#restedAt = 0;
	constructor(clock = systemClock) {
		this.#clock = clock;
	}
	/**
	* The next turn, at once if nobody is there; undefined if it did not come within `waitMs`. Fails when the signal aborts,
	* and at once when the caller is inside a turn of this queue: it would wait for itself.
	*/
	take(waitMs, signal) {
		signal?.throwIfAborted();
		const outer = living(inside.getStore());
		for (let each = outer; each !== void 0; each = each.outer) if (each.queue === this) throw nested();
		if (this.#turn !== void 0) return this.#wait(outer, waitMs, signal);
		const turn = this.#begin(outer);
		if (!this.#owesARest()) return turn;
		return new Promise((resolve) => {
			setImmediate(() => resolve(turn));
		});
	}
	/** Turns that never wait for anything would follow each other without end; timers and sockets need their time as well. */
	#owesARest() {
		const now = this.#clock.monotonic();
		if (now - this.#restedAt < REST_EVERY_MS) return false;
		this.#restedAt = now;
		return true;
	}
	#begin(outer) {
		this.#turn = new Turn(this, outer, () => this.#pass());
		return this.#turn;
	}
	/** Straight to the longest waiting one, so that nobody can slip in between. */
	#pass() {
		this.#turn = void 0;
		const [next] = this.#waiting;
		if (next === void 0) return;
		const turn = this.#begin(next.outer);
		if (this.#owesARest()) setImmediate(() => this.#waiting.has(next) ? next.start(turn) : turn.end());
		else next.start(turn);
	}
	#wait(outer, waitMs, signal) {
		return new Promise((resolve, reject) => {
			const leave = () => {
				this.#waiting.delete(waiter);
				cancel();
				signal?.removeEventListener("abort", abort);
			};
			const finish = (turn) => {
				leave();
				resolve(turn);
			};
			const abort = () => {
				leave();
				reject(signal?.reason);
			};
			const waiter = {
				outer,
				start: finish
			};
			const cancel = this.#clock.after(waitMs, () => finish(void 0));
			signal?.addEventListener("abort", abort, { once: true });
			this.#waiting.add(waiter);
		});
	}
};
const REST_EVERY_MS = 10;
/** Code that outlived its turn holds nothing any more. */
function living(turn) {
	let each = turn;
	while (each?.ended) each = each.outer;
	return each;
}
function nested() {
	return new HapaxError("nested-transaction", "this store has a single writer, and the code that calls it is inside its transaction: use the tx it was given, or make the call after that transaction has ended");
}
// src/stores/sqlite/file.ts
/** What statfs(2) of Linux answers for file systems of other hosts: SQLite's locks and shared memory fail on them. */
const NETWORK_FILE_SYSTEMS = {
	26985: "NFS",
	20859: "SMB",
	4283649346: "CIFS",
	4266872130: "SMB2",
	22092: "NCP",
	1397113167: "AFS",
	1937076805: "Coda",
	12805120: "Ceph",
	198183888: "Lustre"
};
const queues = /* @__PURE__ */ new Map();
/** The one queue of a database file in this process, whatever name the file is reached by. */
function queueOf(path) {
	const key = realpathSync(path);
	const known = queues.get(key)?.deref();
	if (known !== void 0) return known;
	const queue = new Queue();
	queues.set(key, new WeakRef(queue));
	return queue;
}
/** Makes sure that the file is there, and where SQLite can be trusted with it. */
function prepareFile(path) {
	const directory = dirname(path);
	if (!statSync(directory, { throwIfNoEntry: false })?.isDirectory()) expected("path", "in a directory that exists", path);
	refuseNetwork(path, statfsSync(directory).type);
	closeSync(openSync(path, "a"));
}
/** Refuses the type of a file system if it is one of another host. */
function refuseNetwork(path, type) {
	const network = NETWORK_FILE_SYSTEMS[type >>> 0];
	if (network !== void 0) expected("path", `on a disk of this host, not on ${network}`, path);
}
// src/stores/sqlite/database.ts
const NO_ROWS = Object.freeze([]);
const GENERATION = 100;
/** Milliseconds that SQLite itself may wait for a lock. It blocks the event loop meanwhile, so longer waits are ours. */
const BUSY_TIMEOUT_MS = 1;
/** One open connection to a database file. */
var Database = class {
	client;
	queue;
	#young = /* @__PURE__ */ new Map();
	#old = /* @__PURE__ */ new Map();
	#begin;
	#commit;
	#rollback;
	constructor(client, queue) {
		this.client = client;
		this.queue = queue;
		this.#begin = client.prepare("begin immediate");
		this.#commit = client.prepare("commit");
		this.#rollback = client.prepare("rollback");
	}
	run(text, params) {
		const { statement, hasRows, isWrite } = this.#young.get(text) ?? this.#prepared(text);
		const values = params;
		if (values.length > 0) refuseNames(values[0]);
		if (hasRows) {
			const rows = statement.all(...values);
			return {
				rows,
				affected: rows.length
			};
		}
		const { changes } = statement.run(...values);
		return {
			rows: NO_ROWS,
			affected: isWrite ? Number(changes) : 0
		};
	}
	begin() {
		this.#begin.run();
	}
	commit(last) {
		for (const { text, params } of last) this.run(text, params);
		this.#commit.run();
	}
	/** Undoes the open transaction, if SQLite or the handler has not ended it already. */
	rollback() {
		try {
			if (this.client.isTransaction) this.#rollback.run();
		} catch {}
	}
	/** Whether a transaction is still open that could not even be rolled back. */
	get stuck() {
		return this.client.isOpen && this.client.isTransaction;
	}
	close() {
		if (this.client.isOpen) this.client.close();
	}
	#prepared(text) {
		const prepared = this.#old.get(text) ?? prepare(this.client, text);
		if (this.#young.size >= GENERATION) {
			this.#old = this.#young;
			this.#young = /* @__PURE__ */ new Map();
		}
		this.#young.set(text, prepared);
		return prepared;
	}
};
/** Opens a file with the settings that the promises of hapax rest on. Fails with SQLITE_BUSY while others are opening it. */
function openDatabase(path) {
	const inMemory = path === ":memory:";
	if (!inMemory) prepareFile(path);
	const client = new DatabaseSync(path);
	try {
		client.exec(`pragma busy_timeout = ${BUSY_TIMEOUT_MS}`);
		if (client.prepare("pragma journal_mode = wal").get()?.["journal_mode"] !== (inMemory ? "memory" : "wal")) expected("path", "on a disk where SQLite can use WAL", path);
		client.exec("pragma synchronous = full");
		return new Database(client, inMemory ? new Queue() : queueOf(path));
	} catch (error) {
		client.close();
		throw error;
	}
}
function prepare(client, text) {
	const statement = client.prepare(text);
	if (/\S/.test(text.slice(statement.sourceSQL.length))) throw new TypeError("expected one SQL statement, got several: use client.exec() for a script");
	return {
		statement,
		hasRows: statement.columns().length > 0,
		isWrite: /^\s*(insert|update|delete|replace|with)\b/i.test(text)
	};
}
/** The driver takes an object in front for named parameters: a Date there would move all others by one place. */
function refuseNames(first) {
	if (typeof first === "object" && first !== null && !ArrayBuffer.isView(first)) throw new TypeError("expected params to be texts, numbers, bigints, bytes or null");
}
// src/stores/sqlite/errors.ts
/** Primary result codes by what they mean for the message. */
const CLASSES = {
	5: "conflict",
	6: "conflict",
	7: "lost",
	8: "lost",
	9: "lost",
	10: "lost",
	11: "lost",
	13: "lost",
	14: "lost",
	15: "lost",
	26: "lost"
};
const BUSY = 5;
const IOERR = 10;
/** What an error of SQLite means; libraries wrap such errors, so causes are looked at as well. */
function classify(error) {
	return classOfCauses(error, classOf);
}
function classOf(error) {
	if (error.code === "ERR_INVALID_STATE") return "lost";
	const code = primaryCode(error);
	if (code === void 0) return "other";
	if (code === 1 && typeof error.message === "string") {
		if (/^no such savepoint|no transaction is active/.test(error.message)) return "gone";
		if (error.message.startsWith("no such table")) return "no-schema";
	}
	return CLASSES[code] ?? "other";
}
/** Whether SQLite answered that a commit has not happened; after an I/O error it cannot know. */
function answered(error) {
	const code = primaryCode(error);
	return code !== void 0 && code !== IOERR;
}
/** Whether another process holds the lock, so that nothing has happened yet. */
function isBusy(error) {
	return primaryCode(error) === BUSY;
}
/** The result code without its extension. */
function primaryCode({ code, errcode }) {
	return code === "ERR_SQLITE_ERROR" && typeof errcode === "number" ? errcode & 255 : void 0;
}
// src/stores/sqlite/transaction.ts
const NO_PARAMS$1 = [];
/** Members of the connection that would reach beyond the transaction. */
const NOT_LENT = /* @__PURE__ */ new Set([
	"open",
	"close",
	"deserialize",
	"createTagStore",
	Symbol.dispose
]);
/** One transaction on the connection: remembers what dooms it, and dies when it settles. */
var SqliteTransaction = class {
	database;
	/** For the statements of hapax. */
	executor;
	#closed = false;
	#client;
	#failures;
	#doom;
	constructor(database) {
		this.database = database;
		this.executor = { query: (text, params) => {
			if (this.#closed) return Promise.reject(transactionClosed());
			try {
				return Promise.resolve(database.run(text, params));
			} catch (error) {
				return this.#failed(error);
			}
		} };
	}
	query(text, params = NO_PARAMS$1) {
		if (this.#closed) return Promise.reject(transactionClosed());
		try {
			const { rows, affected } = this.database.run(text, params);
			return Promise.resolve({
				rows,
				rowCount: affected
			});
		} catch (error) {
			return this.#failed(error);
		}
	}
	get client() {
		this.#client ??= this.#lent(this.database.client);
		return this.#client;
	}
	get closed() {
		return this.#closed;
	}
	close() {
		this.#closed = true;
	}
	/** Throws what keeps this transaction from committing, if anything does. */
	assertSound() {
		this.assertNotDoomed();
		const unseen = this.#failures?.filter((failure) => !failure.seen).length ?? 0;
		if (unseen > 0) throw unawaited(unseen);
	}
	assertNotDoomed() {
		if (this.#doom !== void 0) throw doomed(this.#doom.kind, this.#doom.error);
	}
	#failed(error) {
		this.#note(error);
		const failure = Failure.reject(error);
		this.#failures ??= [];
		this.#failures.push(failure);
		Promise.prototype.then.call(failure, void 0, () => {});
		return failure;
	}
	#note(error) {
		const kind = classify(error);
		if (kind === "conflict" || kind === "lost") this.#doom ??= {
			kind,
			error
		};
	}
	#lent(target) {
		return new Proxy(target, { get: (_, name) => {
			if (this.#closed) throw transactionClosed();
			if (NOT_LENT.has(name)) throw new TypeError(`${String(name)} is not for handlers: the connection belongs to hapax`);
			const member = target instanceof StatementSync && name === "iterate" ? "all" : name;
			const value = Reflect.get(target, member, target);
			return typeof value === "function" ? (...args) => this.#call(target, name, value, args) : value;
		} });
	}
	#call(target, name, method, args) {
		if (this.#closed) throw transactionClosed();
		try {
			const result = method.apply(target, args);
			if (name === "iterate") return result.values();
			return result instanceof StatementSync ? this.#lent(result) : result;
		} catch (error) {
			this.#note(error);
			throw error;
		}
	}
};
/** The rejection of a statement. It knows whether anybody looked: a failure that nobody awaited must not be committed. */
var Failure = class extends Promise {
	static get [Symbol.species]() {
		return Promise;
	}
	seen = false;
	then(resolved, rejected) {
		this.seen = true;
		return super.then(resolved, rejected);
	}
};
// src/stores/sqlite/connection.ts
/** How long to wait for the writer's turn where nobody said. */
const WAIT_MS = 6e4;
const MAX_PAUSE_MS = 5;
/** Transactions on one connection of its own to a file; one after another, also with other connections of this process. */
var SqliteConnection = class {
	features = {
		name: "sqlite",
		roundTrips: 0,
		lateUse: "refused",
		unawaited: "not detectable"
	};
	#path;
	#database;
	#opening;
	#closed = false;
	constructor(path) {
		this.#path = path;
	}
	async transaction(options, work) {
		const { signal, lockTimeoutMs = WAIT_MS } = options;
		const patience = new Patience(lockTimeoutMs, signal);
		const database = this.#database ?? await this.#open();
		const taken = patience.turn(database.queue);
		const turn = taken instanceof Turn ? taken : await taken;
		try {
			options.acquired?.();
			const begun = patience.until(() => database.begin());
			if (begun instanceof Promise) await begun;
			return await turn.run(() => inTransaction(database, signal, work));
		} finally {
			if (database.stuck) this.#discard(database);
			turn.end();
		}
	}
	executor(tx) {
		return this.#own(tx).executor;
	}
	async assertTransaction(tx) {
		this.#own(tx);
	}
	async query(text, params) {
		const patience = new Patience(WAIT_MS);
		const database = this.#database ?? await this.#open();
		const turn = await patience.turn(database.queue);
		try {
			return await patience.until(() => database.run(text, params));
		} finally {
			turn.end();
		}
	}
	/** Waits for the transaction that is running. */
	async close() {
		const database = this.#database ?? await this.#opening?.catch(() => void 0);
		const turn = await (database && new Patience(WAIT_MS).turn(database.queue));
		this.#closed = true;
		if (database !== void 0) this.#discard(database);
		turn?.end();
	}
	#own(tx) {
		if (!(tx instanceof SqliteTransaction)) throw notInTransaction(describe(tx));
		if (tx.closed) throw transactionClosed();
		if (tx.database !== this.#database) throw notInTransaction("a transaction of another store");
		return tx;
	}
	#open() {
		if (this.#closed) throw new HapaxError("closed", "this store has been closed");
		this.#opening ??= this.#openNow();
		return this.#opening;
	}
	async #openNow() {
		try {
			this.#database = await new Patience(WAIT_MS).until(() => openDatabase(this.#path));
			return this.#database;
		} catch (error) {
			this.#opening = void 0;
			throw error;
		}
	}
	/** The next use opens the file anew. */
	#discard(database) {
		this.#database = void 0;
		this.#opening = void 0;
		database.close();
	}
};
/** A wait with an end: the lock timeout, or the signal. */
var Patience = class {
	#signal;
	#deadline;
	constructor(waitMs, signal) {
		this.#signal = signal;
		this.#deadline = systemClock.monotonic() + waitMs;
	}
	turn(queue) {
		const taken = queue.take(this.#leftMs, this.#signal);
		return taken instanceof Turn ? taken : taken.then(inTime);
	}
	/** Does what may meet the lock of another process; while it does, again and again. */
	until(action) {
		try {
			return action();
		} catch (error) {
			return this.#retry(action, error);
		}
	}
	/** The pauses leave the event loop free. */
	async #retry(action, first) {
		let error = first;
		for (let attempt = 1; isBusy(error); attempt++) {
			const leftMs = this.#leftMs;
			if (leftMs === 0) throw busy(error);
			const pauseMs = Math.min(attempt, MAX_PAUSE_MS) * (.5 + Math.random());
			await pause(systemClock, Math.min(pauseMs, leftMs), this.#signal);
			this.#signal?.throwIfAborted();
			try {
				return action();
			} catch (next) {
				error = next;
			}
		}
		throw error;
	}
	get #leftMs() {
		return Math.max(0, this.#deadline - systemClock.monotonic());
	}
};
function inTime(turn) {
	if (turn === void 0) throw busy();
	return turn;
}
function busy(cause) {
	return new HapaxError("busy", "another transaction was writing all the time", { cause });
}
/** Runs the steps; an abort rolls back at once and does not wait for them. */
function inTransaction(database, signal, work) {
	const run = new Run(database);
	if (signal === void 0) return run.steps(work);
	return new Promise((resolve, reject) => {
		const abort = () => {
			run.end(() => database.rollback());
			reject(signal.reason);
		};
		if (signal.aborted) return abort();
		signal.addEventListener("abort", abort, { once: true });
		const settled = () => signal.removeEventListener("abort", abort);
		run.steps(work).then((value) => {
			settled();
			resolve(value);
		}, (error) => {
			settled();
			reject(error);
		});
	});
}
/** One transaction, which ends once: by its steps or by an abort. */
var Run = class {
	#database;
	#tx;
	#over = false;
	constructor(database) {
		this.#database = database;
		this.#tx = new SqliteTransaction(database);
	}
	async steps(work) {
		const database = this.#database;
		try {
			const answers = work.first.map(({ text, params }) => database.run(text, params));
			const { value, last } = await this.#body(work, answers);
			this.end(() => last === void 0 ? database.rollback() : database.commit(last));
			return value;
		} catch (error) {
			this.end(() => database.rollback());
			throw error;
		}
	}
	/** After this the connection is somebody else's. */
	end(how) {
		if (this.#over) return;
		how();
		this.#over = true;
		this.#tx.close();
	}
	async #body(work, answers) {
		try {
			const end = await work.body(this.#tx, answers);
			this.#tx.assertSound();
			return end;
		} catch (error) {
			this.#tx.assertNotDoomed();
			throw error;
		} finally {
			this.#tx.close();
		}
	}
};
// src/stores/sqlite/migrations.ts
/** Milliseconds since 1970 on SQLite's own clock. */
const NOW = `cast(round(unixepoch('subsec') * 1000) as integer)`;
/** The schema, step by step. A released step is never changed: add one. */
function migrations(prefix) {
	return [{
		version: 1,
		name: "inbox and outbox",
		sql: [
			`create table ${prefix}receipts (
  consumer text not null,
  message_key blob not null,
  token blob not null,
  fingerprint blob not null,
  taken_at integer not null default (${NOW}),
  source text not null,
  id text not null,
  type text not null,
  primary key (consumer, message_key)
) strict, without rowid`,
			`create table ${prefix}inbox (
  seq integer primary key autoincrement,
  created_at integer not null default (${NOW}),
  available_at integer not null,
  message_key blob not null,
  attempts integer not null default 0,
  lost integer not null default 0,
  starts integer not null default 0,
  fingerprint blob not null,
  consumer text not null,
  source text not null,
  id text not null,
  type text not null,
  key text,
  attributes text not null,
  error text,
  data blob not null
) strict`,
			`create index ${prefix}inbox_due on ${prefix}inbox (consumer, available_at, seq)`,
			`create index ${prefix}inbox_message on ${prefix}inbox (message_key)`,
			`create table ${prefix}outbox (
  seq integer primary key autoincrement,
  created_at integer not null default (${NOW}),
  available_at integer not null,
  message_key blob not null,
  fingerprint blob not null,
  relay text not null,
  source text not null,
  id text not null,
  type text not null,
  key text,
  attributes text not null,
  data blob not null
) strict`,
			`create table ${prefix}failed (
  seq integer primary key autoincrement,
  failed_at integer not null default (${NOW}),
  message_key blob not null,
  attempts integer not null,
  fingerprint blob not null,
  consumer text not null,
  source text not null,
  id text not null,
  type text not null,
  key text,
  attributes text not null,
  reason text not null,
  error text not null,
  data blob not null,
  unique (consumer, message_key, fingerprint)
) strict`,
			`create table ${prefix}subscriptions (
  consumer text not null,
  type text not null,
  primary key (consumer, type)
) strict, without rowid`
		]
	}];
}
// src/stores/sqlite/sql.ts
const NO_PARAMS = [];
const plain = (text) => ({
	text,
	params: NO_PARAMS
});
/** The statements of SQLite with one prefix. Rows are written one by one: there is no round trip to save. */
function dialect(prefix) {
	const sql = statements(prefix);
	return {
		name: "sqlite",
		isolationLevels: ["serializable"],
		parallelWriters: false,
		ownTransactions: false,
		classify,
		answered,
		migrations: migrations(prefix),
		migrationLock: [],
		migrationUnlock: [],
		migrationTable: plain(sql.migrationTable),
		migrationRows: plain(sql.migrationRows),
		migrationDone: (version, name, checksum) => ({
			text: sql.migrationDone,
			params: [
				version,
				name,
				checksum
			]
		}),
		settings: () => [],
		guardSet: [plain("savepoint hapax")],
		guardRelease: [plain("release savepoint hapax")],
		guardCheck: [plain("release savepoint hapax"), plain("savepoint hapax")],
		guardRollback: [plain("rollback to savepoint hapax")],
		take: (consumer, token, messages) => messages.map((message) => receipt(sql.take, consumer, token, message)),
		taken: (answers, _token, messages) => takenKeys(answers, messages),
		receipts: (consumer, keys) => ({
			text: sql.receipts,
			params: [consumer, JSON.stringify(keys)]
		}),
		claim: (seqs) => ({
			text: sql.claim,
			params: [JSON.stringify(seqs)]
		}),
		claimDeletes: true,
		lock: (seqs) => ({
			text: sql.lock,
			params: [JSON.stringify(seqs)]
		}),
		backend: () => void 0,
		terminate: () => plain("select 1"),
		deleteInbox: (seqs) => seqs.map((seq) => ({
			text: sql.deleteInbox,
			params: [seq]
		})),
		insertInbox: (rows) => rows.map(({ consumer, message, attempts, starts, delayMs, error }) => ({
			text: sql.insertInbox,
			params: [
				consumer,
				...columns(message),
				attempts,
				starts,
				delayMs,
				error && JSON.stringify(error)
			]
		})),
		insertFailed: (rows) => rows.map(({ consumer, message, attempts, reason, error }) => ({
			text: sql.insertFailed,
			params: [
				consumer,
				...columns(message),
				attempts,
				reason,
				JSON.stringify(error)
			]
		})),
		insertOutbox: (rows) => rows.map(({ relay, message, delayMs }) => ({
			text: sql.insertOutbox,
			params: [
				relay,
				...columns(message),
				delayMs
			]
		})),
		writeLocal: async (executor, rows, token) => {
			const results = [];
			for (const row of rows) results.push(await deliver(sql, executor, row, token));
			return results;
		},
		due: async (query, types, { limit, except, started, hideMs }) => {
			const rows = [];
			for (const [consumer, names] of types) {
				if (rows.length >= limit) break;
				const inHand = JSON.stringify(except);
				const params = [
					hideMs,
					...[
						consumer,
						JSON.stringify(names.map(encodeText)),
						started ? 1 : 0,
						inHand
					],
					limit - rows.length
				];
				rows.push(...(await query({
					text: sql.due,
					params
				})).rows);
			}
			return {
				rows,
				affected: rows.length
			};
		},
		nextDue: (consumer, types) => ({
			text: sql.nextDue,
			params: [consumer, JSON.stringify(types.map(encodeText))]
		}),
		inFlight: (consumer, types) => ({
			text: sql.inFlight,
			params: [consumer, JSON.stringify(types.map(encodeText))]
		}),
		reschedule: ({ seq, attempts, lost, delayMs, error }) => ({
			text: sql.reschedule,
			params: [
				attempts,
				lost,
				delayMs,
				JSON.stringify(error),
				seq
			]
		}),
		copyToFailed: ({ seq, attempts, reason, error }) => ({
			text: sql.copyToFailed,
			params: [
				attempts,
				reason,
				JSON.stringify(error),
				seq
			]
		}),
		inboxRow: (consumer, messageKey) => ({
			text: sql.inboxRow,
			params: [consumer, messageKey]
		}),
		subscribe: (consumer, type) => ({
			text: sql.subscribe,
			params: [consumer, encodeText(type)]
		}),
		subscription: (consumer, type) => ({
			text: sql.subscription,
			params: [consumer, encodeText(type)]
		}),
		failedList: ({ consumer, type, reason, before, limit }) => ({
			text: sql.failedList,
			params: [
				consumer ?? null,
				type === void 0 ? null : encodeText(type),
				reason ?? null,
				before ?? null,
				limit
			]
		}),
		failedGet: (seq) => ({
			text: sql.failedGet,
			params: [seq]
		}),
		failedLock: (seq) => ({
			text: sql.failedLock,
			params: [seq]
		}),
		copyToInbox: (seq) => ({
			text: sql.copyToInbox,
			params: [seq]
		}),
		deleteFailed: (seq) => ({
			text: sql.deleteFailed,
			params: [seq]
		}),
		statusConsumers: plain(sql.statusConsumers),
		statusOutbox: plain(sql.statusOutbox),
		trace: (id) => sql.trace.map((text) => ({
			text,
			params: [encodeText(id)]
		}))
	};
}
function receipt(text, consumer, token, message) {
	const { messageKey, source, id, type, fingerprint } = message;
	return {
		text,
		params: [
			consumer,
			messageKey,
			token,
			fingerprint,
			encodeText(source),
			encodeText(id),
			encodeText(type)
		]
	};
}
/** An insert that met a conflict has changed nothing. */
function takenKeys(answers, messages) {
	if (answers.every((answer) => answer.affected === 1)) return "all";
	const keys = /* @__PURE__ */ new Set();
	for (let index = 0; index < messages.length; index++) if (answers[index]?.affected === 1) keys.add(messages[index].messageKey);
	return keys;
}
/** message_key, source, id, type, key, attributes, data, fingerprint: eight parameters. */
function columns(message) {
	const { messageKey, source, id, type, key, attributes, data, fingerprint } = message;
	const encodedKey = key === null ? null : encodeText(key);
	return [
		messageKey,
		encodeText(source),
		encodeText(id),
		encodeText(type),
		encodedKey,
		attributes,
		data,
		fingerprint
	];
}
/** Receipt and inbox row for each consumer that has no receipt yet. */
async function deliver(sql, executor, { message, consumers, delayMs }, token) {
	const listening = await executor.query(sql.listening, [encodeText(message.type), JSON.stringify(consumers)]);
	let fresh = 0;
	for (const row of listening.rows) {
		const consumer = String(row["consumer"]);
		const { text, params } = receipt(sql.take, consumer, token, message);
		if ((await executor.query(text, params)).affected === 0) continue;
		fresh += 1;
		await executor.query(sql.insertInbox, [
			consumer,
			...columns(message),
			0,
			0,
			delayMs,
			null
		]);
	}
	return {
		consumers: listening.rows.length,
		fresh
	};
}
const LATER = `cast(round(unixepoch('subsec') * 1000 + ?) as integer)`;
const UUID = `unhex(?, '-')`;
const MESSAGE = "message_key, source, id, type, key, attributes, data, fingerprint";
const MESSAGE_VALUES = `${UUID}, ?, ?, ?, ?, ?, ?, unhex(?)`;
const SEQ = "cast(seq as text) as seq";
const INBOX = `${SEQ}, consumer, ${MESSAGE}, attempts, lost, starts`;
/** Every statement, whole and by name. Parameters are scalars; a list is the text of a JSON array. */
function statements(prefix) {
	return {
		migrationTable: `
create table if not exists ${prefix}migrations (
  version integer primary key,
  name text not null,
  checksum text not null,
  applied_at integer not null default (cast(strftime('%s', 'now') as integer) * 1000)
) strict`,
		migrationRows: `select version, checksum from ${prefix}migrations`,
		migrationDone: `insert into ${prefix}migrations (version, name, checksum) values (?, ?, ?)`,
		take: `
insert into ${prefix}receipts (consumer, message_key, token, fingerprint, source, id, type)
values (?, ${UUID}, ${UUID}, unhex(?), ?, ?, ?)
on conflict (consumer, message_key) do nothing`,
		receipts: `
select message_key, token, source, id, type, fingerprint, taken_at from ${prefix}receipts
where consumer = ? and message_key in (select unhex(value, '-') from json_each(?))`,
		lock: `
select ${SEQ} from ${prefix}inbox as i
where i.seq in (select cast(value as integer) from json_each(?)) order by i.seq`,
		claim: `
delete from ${prefix}inbox where seq in (select cast(value as integer) from json_each(?))
returning cast(seq as text) as seq`,
		deleteInbox: `delete from ${prefix}inbox where seq = ?`,
		insertInbox: `
insert into ${prefix}inbox (consumer, ${MESSAGE}, attempts, starts, available_at, error)
values (?, ${MESSAGE_VALUES}, ?, ?, ${LATER}, ?)`,
		insertFailed: `
insert into ${prefix}failed (consumer, ${MESSAGE}, attempts, reason, error)
values (?, ${MESSAGE_VALUES}, ?, ?, ?)
on conflict (consumer, message_key, fingerprint) do nothing`,
		insertOutbox: `
insert into ${prefix}outbox (relay, ${MESSAGE}, available_at)
values (?, ${MESSAGE_VALUES}, ${LATER})`,
		listening: `
select consumer from ${prefix}subscriptions where type = ?
union
select value from json_each(?)
order by 1`,
		due: `
update ${prefix}inbox set starts = starts + 1, available_at = ${LATER}
where seq in (
  select seq from ${prefix}inbox
  where consumer = ? and type in (select value from json_each(?)) and available_at <= ${NOW}
    and (starts > 0) = ? and seq not in (select cast(value as integer) from json_each(?))
  order by available_at, seq limit ?)
returning ${INBOX}`,
		nextDue: `
select available_at - ${NOW} as ms from ${prefix}inbox
where consumer = ? and type in (select value from json_each(?))
order by available_at limit 1`,
		inFlight: `
select 1 as one from ${prefix}inbox
where consumer = ? and type in (select value from json_each(?)) and starts > 0 limit 1`,
		reschedule: `
update ${prefix}inbox set attempts = ?, lost = ?, starts = 0, available_at = ${LATER}, error = ? where seq = ?`,
		copyToFailed: `
insert into ${prefix}failed (consumer, ${MESSAGE}, attempts, reason, error)
select consumer, ${MESSAGE}, ?, ?, ? from ${prefix}inbox where seq = ?
on conflict (consumer, message_key, fingerprint) do nothing`,
		inboxRow: `
select ${INBOX} from ${prefix}inbox as i where consumer = ? and message_key = ${UUID} order by i.seq limit 1`,
		subscribe: `insert into ${prefix}subscriptions (consumer, type) values (?, ?) on conflict do nothing`,
		subscription: `select 1 as one from ${prefix}subscriptions where consumer = ? and type = ?`,
		failedList: `
with f (consumer_, type_, reason_, before_) as (values (?, ?, ?, cast(? as integer)))
select ${SEQ}, consumer, ${MESSAGE}, attempts, reason, error, failed_at
from ${prefix}failed as m, f
where (f.consumer_ is null or consumer = f.consumer_) and (f.type_ is null or type = f.type_)
  and (f.reason_ is null or reason = f.reason_) and (f.before_ is null or m.seq < f.before_)
order by m.seq desc limit ?`,
		failedGet: `
select ${SEQ}, consumer, ${MESSAGE}, attempts, reason, error, failed_at from ${prefix}failed where seq = ?`,
		failedLock: `select ${SEQ} from ${prefix}failed where seq = ?`,
		copyToInbox: `
insert into ${prefix}inbox (consumer, ${MESSAGE}, available_at)
select consumer, ${MESSAGE}, ${NOW} from ${prefix}failed where seq = ?`,
		deleteFailed: `delete from ${prefix}failed where seq = ?`,
		statusConsumers: `
select consumer, sum(receipts) as receipts, sum(waiting) as waiting, sum(retrying) as retrying, sum(failed) as failed
from (
  select consumer, count(*) as receipts, 0 as waiting, 0 as retrying, 0 as failed from ${prefix}receipts group by consumer
  union all
  select consumer, 0, count(*) filter (where attempts = 0), count(*) filter (where attempts > 0), 0
  from ${prefix}inbox group by consumer
  union all
  select consumer, 0, 0, 0, count(*) from ${prefix}failed group by consumer
)
group by consumer order by consumer`,
		statusOutbox: `select count(*) as outbox, min(created_at) as oldest from ${prefix}outbox`,
		trace: [
			`select 'receipt' as place, consumer, source, type, taken_at as at from ${prefix}receipts where id = ?`,
			`
select 'inbox' as place, consumer, source, type, created_at as at, attempts, available_at as due_at, error
from ${prefix}inbox where id = ?`,
			`select 'outbox' as place, relay, source, type, created_at as at from ${prefix}outbox where id = ?`,
			`
select 'failed' as place, ${SEQ}, consumer, source, type, failed_at as at, attempts, reason, error
from ${prefix}failed where id = ?`
		]
	};
}
// src/stores/sqlite/index.ts
/** A store on a SQLite file, by `node:sqlite`. hapax opens a connection of its own: several processes may share the file. */
function sqlite(options) {
	noOthers("options", options, ["path", "prefix"]);
	const { path, prefix = "hapax_" } = options;
	if (typeof path !== "string" || path === "" || path.includes("\0")) expected("path", "the path of a file", path);
	return new SqlStore(new SqliteConnection(path === ":memory:" ? path : resolve(path)), dialect(identifier("prefix", prefix)));
}
// src/core/standard-schema.ts
/** The issues on one line: "orderId: expected string, received number". */
function describeIssues(issues) {
	return issues.slice(0, 5).map((issue) => {
		const path = (issue.path ?? []).map((part) => String(typeof part === "object" ? part.key : part)).join(".");
		return path === "" ? issue.message : `${path}: ${issue.message}`;
	}).join("; ") + (issues.length > 5 ? `; and ${issues.length - 5} more` : "");
}
// src/core/define.ts
function defineMessage(type, options = {}) {
	text$1("type", type);
	const { schema, key } = options;
	if (key !== void 0 && typeof key !== "function") expected("key", "a function", key);
	if (schema !== void 0 && typeof schema?.["~standard"]?.validate !== "function") expected("schema", "a Standard Schema", schema);
	const message = {
		type,
		of: (data, publishOptions = {}) => ({
			message,
			data,
			options: publishOptions
		}),
		keyOf: (data) => key?.(data),
		parse: schema === void 0 ? (data) => data : (data) => parseWith(type, schema, data)
	};
	return Object.freeze(message);
}
function parseWith(type, schema, data) {
	const result = schema["~standard"].validate(data);
	return result instanceof Promise ? result.then((awaited) => checkedValue(type, awaited)) : checkedValue(type, result);
}
function checkedValue(type, result) {
	if (result.issues === void 0) return result.value;
	throw new HapaxError("invalid-payload", `expected data of ${type} to fit its schema: ${describeIssues(result.issues)}`, { fields: {
		type,
		issues: result.issues
	} });
}
// src/core/activity.ts
/** Counts what is under way, so that closing can wait for it, and refuses what comes afterwards. */
var Activity = class {
	#running = 0;
	#closed = false;
	#waiting = [];
	get closed() {
		return this.#closed;
	}
	close() {
		this.#closed = true;
	}
	async during(work) {
		if (this.#closed) throw new HapaxError("closed", "this hapax is closed");
		this.#running += 1;
		try {
			return await work();
		} finally {
			this.#running -= 1;
			if (this.#running === 0) for (const resolve of this.#waiting.splice(0)) resolve();
		}
	}
	/** Resolves when nothing is under way. */
	idle() {
		if (this.#running === 0) return Promise.resolve();
		return new Promise((resolve) => {
			this.#waiting.push(resolve);
		});
	}
};
// src/core/consumer-options.ts
const NAMES = [
	"receive",
	"group",
	"onError",
	"concurrency",
	"timeoutMs",
	"lockTimeoutMs",
	"missingId",
	"onMismatch",
	"retry",
	"maxAgeMs",
	"isolation"
];
const ISOLATIONS = [
	"read committed",
	"repeatable read",
	"serializable"
];
/** Checks the options and fills in the defaults. */
function consumerSettings(options, parallelWriters) {
	noOthers("options of consumer", options, NAMES);
	const { group, isolation, maxAgeMs } = options;
	if (group !== void 0) noOthers("group", group, ["size"]);
	if (isolation !== void 0) oneOf("isolation", ISOLATIONS, isolation, isolation);
	const timeoutMs = positiveInteger("timeoutMs", options.timeoutMs, 3e4);
	return Object.freeze({
		receive: oneOf("receive", ["direct", "store"], options.receive, "direct"),
		groupSize: group && positiveInteger("group.size", group.size, 1),
		onError: oneOf("onError", ["store", "rollback"], options.onError, "store"),
		concurrency: positiveInteger("concurrency", options.concurrency, 10),
		timeoutMs,
		lockTimeoutMs: positiveInteger("lockTimeoutMs", options.lockTimeoutMs, parallelWriters ? 2e3 : timeoutMs),
		missingId: missingIdPolicy(options.missingId),
		onMismatch: oneOf("onMismatch", ["duplicate", "conflict"], options.onMismatch, "duplicate"),
		retry: retryPolicy(options.retry ?? {}),
		maxAgeMs: maxAgeMs === void 0 ? void 0 : positiveInteger("maxAgeMs", maxAgeMs, 1),
		isolation
	});
}
function missingIdPolicy(policy = "reject") {
	if (typeof policy !== "function" && policy !== "reject" && policy !== "hash") expected("missingId", `'reject', 'hash' or a function`, policy);
	return policy;
}
function retryPolicy(retry) {
	noOthers("retry", retry, [
		"attempts",
		"minDelayMs",
		"maxDelayMs",
		"factor"
	]);
	const minDelayMs = numberFrom("retry.minDelayMs", 0, retry.minDelayMs, 1e3);
	return Object.freeze({
		attempts: positiveInteger("retry.attempts", retry.attempts, 10),
		minDelayMs,
		maxDelayMs: numberFrom("retry.maxDelayMs", minDelayMs, retry.maxDelayMs, Math.max(minDelayMs, 6e5)),
		factor: numberFrom("retry.factor", 1, retry.factor, 2)
	});
}
// src/core/deadline.ts
/** The time limits of one transaction: an abort ends it by force, whatever it waits for. */
var Deadline = class {
	#controller = new AbortController();
	#clock;
	#phases;
	#outer;
	#cancel;
	#reason;
	#endsAt = 0;
	#over = false;
	#timerAt = 0;
	/** `outer` ends the transaction as well, for example because its worker is stopped. */
	constructor(clock, phases, outer) {
		this.#clock = clock;
		this.#phases = phases;
		this.#outer = outer;
		outer?.addEventListener("abort", this.#stop, { once: true });
		if (outer?.aborted) this.#stop();
	}
	get signal() {
		return this.#controller.signal;
	}
	opening() {
		const { openingMs } = this.#phases;
		this.#arm(openingMs, () => late("store-unavailable", "the database did not answer", openingMs));
	}
	handler() {
		const { handlerMs } = this.#phases;
		this.#arm(handlerMs, () => late("handler-timeout", "the handler did not finish", handlerMs));
	}
	commit() {
		const { commitMs } = this.#phases;
		this.#arm(commitMs, () => late("commit-unknown", "the database did not answer COMMIT", commitMs));
	}
	/** No limit until the next phase begins. */
	pause() {
		this.#cancel?.();
		this.#cancel = void 0;
	}
	/** For good: a handler that returns after its time must not start the next phase. */
	done() {
		this.#over = true;
		this.pause();
		this.#outer?.removeEventListener("abort", this.#stop);
	}
	#stop = () => this.#controller.abort(this.#outer?.reason);
	/** One timer serves all phases: it is set again only if it went off before the end of a later phase. */
	#arm(ms, reason) {
		if (this.#over) return;
		this.#reason = reason;
		this.#endsAt = this.#clock.monotonic() + ms;
		if (this.#cancel !== void 0 && this.#timerAt <= this.#endsAt) return;
		this.#cancel?.();
		this.#timer(ms);
	}
	#timer(ms) {
		this.#timerAt = this.#clock.monotonic() + ms;
		this.#cancel = this.#clock.after(ms, () => {
			const leftMs = this.#endsAt - this.#clock.monotonic();
			if (leftMs > 0) this.#timer(leftMs);
			else this.#controller.abort(this.#reason?.());
		});
	}
};
function late(code, what, ms) {
	return new HapaxError(code, `${what} within ${ms} ms`);
}
// src/core/identity.ts
/**
* The key of a message in `receipts`: a UUIDv8 computed from the exact bytes of source and id.
* The time of a UUIDv7 id comes first, so that inserts into the index stay local; other ids have zeros there.
*/
function messageKey(source, id) {
	const digest = hash("sha256", pair(source, id), "hex");
	return uuidv8(`${uuidv7Time(id) ?? "000000000000"}${digest.slice(0, 20)}`);
}
/** Sets version 8 and the variant in 32 hexadecimal digits. */
function uuidv8(digits) {
	const variant = "89ab"[Number.parseInt(digits.charAt(16), 16) & 3];
	return format(`${digits.slice(0, 12)}8${digits.slice(13, 16)}${variant}${digits.slice(17)}`);
}
/** Eight bytes, in hexadecimal digits, that tell one payload from another; a text stands for its UTF-8. */
function fingerprint(payload) {
	return hash("sha256", payload, "hex").slice(0, 16);
}
/** An id for a message that came without one: the SHA-256 of its type, its key and its payload. */
function payloadId(type, key, payload) {
	return `sha256:${hash("sha256", pair(type, key ?? "") + hash("sha256", payload, "hex"), "hex")}`;
}
/** Both texts behind their lengths in bytes, as netstrings, so that ('ab', 'c') and ('a', 'bc') differ. */
function pair(source, id) {
	return `${Buffer.byteLength(source)}:${source},${Buffer.byteLength(id)}:${id},`;
}
// src/core/message.ts
const OTHERS = [
	"subject",
	"time",
	"datacontenttype",
	"correlationId",
	"causationId",
	"traceparent",
	"tracestate",
	"headers"
];
/** The JSON text of the attributes that have no column. */
function packAttributes(message) {
	let text = "";
	for (const name of OTHERS) {
		const value = message[name];
		if (value !== void 0) text += `${text === "" ? "" : ","}"${name}":${JSON.stringify(value)}`;
	}
	return `{${text}}`;
}
/** The attributes of a stored message. */
function unpackAttributes(stored) {
	const { id, source, type, key, attributes } = stored;
	const own = key === null ? {
		id,
		source,
		type
	} : {
		id,
		source,
		type,
		key
	};
	return attributes === "{}" ? own : {
		...own,
		...JSON.parse(attributes)
	};
}
// src/core/intake.ts
/** The longest id, source, type or key that is taken, in bytes of UTF-8. */
const MAX_TEXT_BYTES = 2048;
/** Checks a delivery and gives it its identity. Only something that is no message at all makes it throw. */
function intake(incoming, policy) {
	if (typeof incoming !== "object" || incoming === null) throw new HapaxError("invalid-message", `expected a message to be an object, got ${describe(incoming)}`);
	try {
		return look(incoming, policy);
	} catch (cause) {
		const refused = new HapaxError("invalid-message", "the message could not be read", { cause });
		const id = randomUUID();
		return {
			stored: new Delivery({
				source: "(unreadable)",
				type: "(unreadable)"
			}, {
				source: "(unreadable)",
				id,
				key: id
			}, ""),
			redelivered: false,
			refused
		};
	}
}
function look(incoming, policy) {
	const payload = payloadOf(incoming);
	const identity = identify(incoming, payload.content, policy);
	const stored = new Delivery(incoming, identity, payload.content);
	const refused = payload.refused ?? identity.refused ?? refusal(incoming, stored, policy);
	const redelivered = incoming.redelivered === true;
	return refused === void 0 ? {
		stored,
		redelivered
	} : {
		stored,
		redelivered,
		refused
	};
}
/** A delivery as it would be stored. Most never are, so what only storing needs is made when it is asked for. */
var Delivery = class {
	messageKey;
	source;
	id;
	type;
	key;
	fingerprint;
	content;
	#others;
	#attributes;
	constructor(incoming, { source, id, key }, content) {
		this.messageKey = messageKey(source, key);
		this.source = source;
		this.id = id;
		this.type = typeOf(incoming);
		this.key = keyOf$1(incoming);
		this.fingerprint = fingerprint(content);
		this.content = content;
		this.#others = cleanAttributes(incoming);
	}
	get attributes() {
		this.#attributes ??= packAttributes(this.#others);
		return this.#attributes;
	}
	get data() {
		return typeof this.content === "string" ? Buffer.from(this.content) : this.content;
	}
	get bytes() {
		const { content, attributes } = this;
		return (typeof content === "string" ? Buffer.byteLength(content) : content.byteLength) + (attributes === "{}" ? 2 : Buffer.byteLength(attributes));
	}
};
function typeOf({ type }) {
	return isText(type, 2048) ? type : shown(type);
}
function keyOf$1({ key }) {
	return isText(key, 2048) ? key : null;
}
function payloadOf({ data, datacontenttype }) {
	if (data === void 0) return { content: "" };
	if (ArrayBuffer.isView(data)) return { content: new Uint8Array(data.buffer, data.byteOffset, data.byteLength).slice() };
	if (data instanceof ArrayBuffer || data instanceof SharedArrayBuffer) return { content: new Uint8Array(data).slice() };
	if (typeof data === "string" && !isJson(datacontenttype)) return { content: data.toWellFormed() };
	try {
		const json = JSON.stringify(data);
		if (json !== void 0) return { content: json };
	} catch (error) {
		return unserialisable(data, error);
	}
	return unserialisable(data, void 0);
}
function unserialisable(data, cause) {
	const reason = cause === void 0 ? "" : `: ${messageOf(asError$1(cause))}`;
	const what = `expected data to be a JSON value, got ${describe(data)}${reason}`;
	return {
		content: describe(data),
		refused: new HapaxError("invalid-payload", what, { cause })
	};
}
function identify(incoming, content, { missingId }) {
	const { source, id } = incoming;
	const standIn = () => payloadId(typeOf(incoming), keyOf$1(incoming), content);
	if (!isText(source, 2048)) {
		const given = isText(id, 2048) ? id : "";
		const refused = invalid("invalid-message", "source", source);
		return {
			source: shown(source),
			id: given || standIn(),
			key: given + standIn(),
			refused
		};
	}
	if (isText(id, 2048)) return {
		source,
		id,
		key: id
	};
	const derived = missingId === "hash" ? standIn() : typeof missingId === "function" ? asked(missingId, incoming) : id;
	if (isText(derived, 2048)) return {
		source,
		id: derived,
		key: derived
	};
	const refused = invalid(derived === void 0 || derived === null || derived === "" ? "missing-id" : "invalid-id", "id", derived);
	return {
		source,
		id: standIn(),
		key: standIn(),
		refused
	};
}
/** The id that the application's function gives, if it gives one at once and does not fail. */
function asked(missingId, incoming) {
	try {
		const id = missingId(incoming);
		if (id instanceof Promise) id.catch(() => {});
		return id;
	} catch {
		return;
	}
}
function refusal(incoming, stored, policy) {
	const { type, key, time } = incoming;
	if (!isText(type, 2048)) return invalid("invalid-message", "type", type);
	if (key !== void 0 && !isText(key, 2048)) return invalid("invalid-message", "key", key);
	const { bytes } = stored;
	if (bytes > policy.maxBytes) return new HapaxError("too-large", `expected a message of at most ${policy.maxBytes} bytes, got ${bytes}`, { fields: { bytes } });
	return expired(time, policy);
}
function expired(time, { maxAgeMs, clock }) {
	if (maxAgeMs === void 0 || typeof time !== "string") return void 0;
	const ageMs = clock.now() - Date.parse(time);
	if (!(ageMs > maxAgeMs)) return void 0;
	return new HapaxError("expired", `expected a message of at most ${maxAgeMs} ms of age, got one of ${ageMs} ms`, { fields: { ageMs } });
}
function invalid(code, name, got) {
	return new HapaxError(code, `expected ${name} to be ${`a non-empty, well-formed string of at most ${MAX_TEXT_BYTES} bytes`}, got ${describe(got)}`, { fields: { attribute: name } });
}
/** Something to show in the failed store for an attribute that could not be taken. */
function shown(value) {
	return `(${describe(value).toWellFormed()})`;
}
const TEXTS = [
	"subject",
	"time",
	"datacontenttype",
	"correlationId",
	"causationId",
	"traceparent",
	"tracestate"
];
/** The attributes without a column, as texts only: whatever else a sender put there is dropped. */
function cleanAttributes(incoming) {
	let clean = NOTHING_ELSE;
	for (const name of TEXTS) {
		const value = incoming[name];
		if (typeof value === "string") clean = {
			...clean,
			[name]: value
		};
	}
	const { headers } = incoming;
	return typeof headers === "object" && headers !== null ? {
		...clean,
		headers: cleanHeaders(headers)
	} : clean;
}
const NOTHING_ELSE = Object.freeze({});
function cleanHeaders(headers) {
	const clean = Object.create(null);
	for (const [name, value] of Object.entries(headers)) if ([
		"string",
		"number",
		"boolean",
		"bigint"
	].includes(typeof value)) clean[name] = String(value);
	return clean;
}
/**
* What a handler gets of a stored message: the JSON value; where its content type is not JSON, a text for `text/…` and
* bytes else. Made anew at every call, so that no handler sees what another run did to it. Throws `invalid-payload`.
*/
function decode(stored, contentType) {
	const content = stored instanceof Delivery ? stored.content : stored.data;
	if (content.length === 0) return void 0;
	try {
		if (!isJson(contentType)) return isTextual(contentType) ? textOf(content) : new Uint8Array(stored.data);
		return JSON.parse(textOf(content));
	} catch (cause) {
		throw new HapaxError("invalid-payload", `expected data to be ${isJson(contentType) ? "JSON in UTF-8" : "text in UTF-8"}: ${messageOf(asError$1(cause))}`, { cause });
	}
}
function isJson(contentType) {
	return typeof contentType !== "string" || /^[^;]*\bjson\b/i.test(contentType);
}
function isTextual(contentType) {
	return contentType?.trimStart().toLowerCase().startsWith("text/") === true;
}
function textOf(content) {
	return typeof content === "string" ? content : utf8.decode(content);
}
const utf8 = new TextDecoder("utf-8", { fatal: true });
// src/core/handlers.ts
/** Decodes and checks a message for its handler; throws `invalid-payload`. */
function prepareJob(handler, stored, attempt) {
	const job = (first) => {
		let unused = first;
		const content = () => {
			const current = unused ?? decodeFor(handler, stored);
			unused = void 0;
			return current;
		};
		return {
			stored,
			handler,
			attempt,
			content
		};
	};
	const first = decodeFor(handler, stored);
	return first instanceof Promise ? first.then(job) : job(first);
}
function decodeFor(handler, stored) {
	const attributes = unpackAttributes(stored);
	const value = decode(stored, attributes.datacontenttype);
	const message = {
		...attributes,
		data: value
	};
	try {
		const data = handler.type.parse(value);
		if (!(data instanceof Promise)) return {
			message,
			data
		};
		return data.then((awaited) => ({
			message,
			data: awaited
		}), (error) => refuse(stored, error));
	} catch (error) {
		return refuse(stored, error);
	}
}
function refuse({ type }, error) {
	if (isHapaxError(error, "invalid-payload")) throw error;
	throw new HapaxError("invalid-payload", `the schema of ${type} threw: ${messageOf(asError$1(error))}`, { cause: error });
}
/** Calls the handlers in turn; those of many get their messages as one array, where the first of them stands. */
async function callHandlers(jobs, scope) {
	const called = /* @__PURE__ */ new Set();
	for (const job of jobs) {
		const { handler } = job;
		if (handler.kind === "one") {
			const content = job.content();
			await callOne(handler.call, job, content instanceof Promise ? await content : content, scope);
		} else if (!called.has(handler)) {
			called.add(handler);
			await callMany(handler.call, jobs.filter((each) => each.handler === handler), scope);
		}
	}
}
function callOne(call, job, { message, data }, scope) {
	const { tx, buffer, signal, logger } = scope;
	const cause = {
		causationId: message.id,
		correlationId: message.correlationId ?? message.id
	};
	const publish = (type, value, options) => buffer.publish(type, value, options, cause);
	return call(data, {
		tx,
		message,
		publish,
		signal,
		attempt: job.attempt,
		logger
	});
}
async function callMany(call, jobs, scope) {
	const { tx, buffer, signal, logger } = scope;
	const items = [];
	for (const job of jobs) {
		const content = job.content();
		items.push(content instanceof Promise ? await content : content);
	}
	const publish = (type, data, options) => buffer.publish(type, data, options);
	await call(items, {
		tx,
		publish,
		signal,
		logger
	});
}
/** Smaller groups: halves for handlers of many, which find the culprit in few calls; else one by one. */
function smaller(jobs) {
	const middle = Math.ceil(jobs.length / 2);
	return jobs.some((job) => job.handler.kind === "many") ? [jobs.slice(0, middle), jobs.slice(middle)] : jobs.map((job) => [job]);
}
// src/core/engine.ts
const MAX_CONFLICTS = 20;
const STALE_MS = 1e3;
const CONFLICT_PAUSE_MS = 10;
const GRACE_MS = 1e4;
const COMMIT_MS = 3e4;
/** How long the outcome of a commit is looked for before the message is put back. */
const RESOLVE_MS = 15e3;
/** To notice a handler that would wait for itself. */
const working = new AsyncLocalStorage();
/**
* Runs one transaction until its outcome is known: again after a conflict, and again, under a new token, after a commit
* whose outcome was not learnt. Rejects only when the database cannot tell.
*/
var Attempt = class {
	#engine;
	#settings;
	#opening;
	#body;
	#earlier = /* @__PURE__ */ new Set();
	#phases;
	#unknownSince;
	#conflicts = 0;
	#stale = false;
	#startedAt;
	#onUnknown;
	#signal;
	constructor(engine, settings, plan) {
		this.#engine = engine;
		this.#settings = settings;
		this.#startedAt = engine.clock.monotonic();
		this.#opening = plan.opening;
		this.#body = plan.body;
		this.#onUnknown = plan.onUnknown;
		this.#signal = plan.signal;
		this.#phases = {
			openingMs: settings.lockTimeoutMs + GRACE_MS,
			handlerMs: settings.timeoutMs,
			commitMs: COMMIT_MS
		};
	}
	async run() {
		for (;;) {
			const token = this.#engine.random.token();
			const once = await this.#once(token);
			if (once !== "again") return once;
			await pause(this.#engine.clock, CONFLICT_PAUSE_MS * (1 + this.#conflicts) * this.#engine.random.number());
		}
	}
	async #once(token) {
		const deadline = new Deadline(this.#engine.clock, this.#phases, this.#signal);
		const progress = {
			called: false,
			thrown: NOTHING,
			buffer: void 0
		};
		const opening = this.#opening(token, this.#unknownSince !== void 0);
		try {
			const value = await this.#engine.store.transaction(this.#unitOptions(deadline), opening, (unit) => this.#runBody(unit, deadline, progress));
			progress.buffer?.committed();
			return {
				kind: "done",
				value
			};
		} catch (error) {
			return this.#judge(error, token, progress);
		} finally {
			deadline.done();
			progress.buffer?.close();
		}
	}
	#unitOptions(deadline) {
		const { isolation, lockTimeoutMs, timeoutMs } = this.#settings;
		const acquired = () => deadline.opening();
		return {
			isolation,
			signal: deadline.signal,
			acquired,
			lockTimeoutMs,
			idleTimeoutMs: timeoutMs + GRACE_MS
		};
	}
	async #runBody(unit, deadline, progress) {
		const { publisher, logger } = this.#engine;
		const call = async (jobs) => {
			const buffer = publisher.open(unit.tx);
			progress.buffer = buffer;
			progress.called = true;
			deadline.handler();
			try {
				await callHandlers(jobs, {
					tx: unit.tx,
					buffer,
					signal: deadline.signal,
					logger
				});
				return await buffer.flush(unit);
			} catch (error) {
				progress.thrown = error;
				throw error;
			} finally {
				buffer.close();
			}
		};
		const end = await this.#body({
			unit,
			earlier: this.#earlier,
			call
		});
		deadline.commit();
		return end;
	}
	#judge(error, token, progress) {
		if (error === progress.thrown && !isDoomed(error)) return this.#failed(error, token);
		if (!isHapaxError(error)) {
			if (progress.called) return this.#failed(error, token);
			throw refused(error);
		}
		switch (error.code) {
			case "commit-unknown":
				this.#earlier.add(token);
				this.#unknownSince ??= this.#engine.clock.monotonic();
				this.#onUnknown();
				return this.#resolving(error);
			case "store-unavailable": return this.#unknownSince === void 0 ? this.#unavailable(error) : this.#resolving(error);
			case "transaction-conflict": return ++this.#conflicts < MAX_CONFLICTS ? "again" : {
				kind: "lost",
				error
			};
			case "transaction-lost": return {
				kind: "lost",
				error
			};
			case "busy": return {
				kind: "busy",
				error
			};
			default:
				if (progress.called) return this.#failed(error, token);
				throw error;
		}
	}
	#failed(error, token) {
		return {
			kind: "failed",
			error,
			tokens: new Set(this.#earlier).add(token)
		};
	}
	/** A pool may hand out a connection that broke while nobody used it: the next one is a new one. */
	#unavailable(error) {
		if (!(this.#engine.clock.monotonic() - this.#startedAt < STALE_MS) || this.#stale) throw error;
		this.#stale = true;
		return "again";
	}
	#resolving(cause) {
		const since = this.#unknownSince ?? 0;
		if (this.#engine.clock.monotonic() - since < RESOLVE_MS) {
			this.#conflicts += 1;
			return "again";
		}
		throw new HapaxError("commit-unknown", "the outcome of a commit could not be learnt: do not acknowledge the message", { cause });
	}
};
/** The database answered our own first statements with an error, for example that a privilege is missing. */
function refused(cause) {
	return new HapaxError("store-unavailable", `the database refused: ${messageOf(asError$1(cause))}`, { cause });
}
const NOTHING = Symbol("nothing was thrown");
/** The database gave the transaction up: that is not the fault of the handler in which it showed. */
function isDoomed(error) {
	return isHapaxError(error, "transaction-conflict") || isHapaxError(error, "transaction-lost");
}
/** A transaction without handlers: the database has to answer in time, the body may take as long as it likes. */
async function unit({ store, clock }, options, opening, body) {
	const openingMs = options.lockTimeoutMs + GRACE_MS;
	const deadline = new Deadline(clock, {
		openingMs,
		handlerMs: openingMs,
		commitMs: COMMIT_MS
	});
	const acquired = () => deadline.opening();
	try {
		return await store.transaction({
			...options,
			signal: deadline.signal,
			acquired
		}, opening, async (opened) => {
			deadline.pause();
			const end = await body(opened);
			deadline.commit();
			return end;
		});
	} finally {
		deadline.done();
	}
}
/** Repeats a write of hapax's own after conflicts and unknown commits; the write has to find out what it did before. */
async function persist(engine, write) {
	for (let run = 1;; run++) try {
		return await write();
	} catch (error) {
		if (!(isHapaxError(error, "transaction-conflict") || isHapaxError(error, "commit-unknown")) || run >= MAX_CONFLICTS) throw error;
		await pause(engine.clock, CONFLICT_PAUSE_MS * run * engine.random.number());
	}
}
// src/core/outcome.ts
/** The outcome of this status; only `busy` and `rolled-back` must not be acknowledged. */
function outcome(status, error) {
	const ack = status !== "busy" && status !== "rolled-back";
	return error === void 0 ? {
		status,
		ack
	} : {
		status,
		ack,
		error
	};
}
// src/core/backoff.ts
/**
* The delay after the given attempt (1 is the first). Jitter fills the whole span between the least delay and the
* exponential bound, so that messages that failed together do not come back together.
*/
function retryDelay(policy, attempt, random) {
	const growth = Math.min(Number.MAX_VALUE, policy.factor ** attempt);
	const bound = Math.min(policy.maxDelayMs, policy.minDelayMs * growth);
	const span = Math.max(0, bound - policy.minDelayMs);
	return Math.min(policy.maxDelayMs, Math.round(policy.minDelayMs + random.number() * span));
}
// src/core/verdict.ts
/** Errors after which another attempt is pointless; their code is the reason. */
const FINAL = [
	"broken-atomicity",
	"nested-transaction",
	"reentrant",
	"missing-id",
	"invalid-id",
	"invalid-message",
	"invalid-payload",
	"unknown-type",
	"too-large",
	"conflict",
	"expired"
];
/** Whether another attempt is pointless, whatever the policy says. */
function isFinal(error) {
	return error instanceof Permanent || isHapaxError(error) && FINAL.includes(error.code);
}
/** Decides what follows from the error of the given attempt (1 is the first). */
function judge(thrown, attempt, policy, random) {
	const error = asError$1(thrown);
	if (isFinal(error)) return {
		kind: "fail",
		reason: isHapaxError(error) ? error.code : "permanent",
		error
	};
	if (attempt >= policy.attempts) return {
		kind: "fail",
		reason: "attempts-exhausted",
		error
	};
	return {
		kind: "retry",
		delayMs: askedDelay(error) ?? retryDelay(policy, attempt, random),
		error
	};
}
/** No database takes a time that is no number, or thousands of years away. */
const MAX_DELAY_MS = 31536e7;
function askedDelay(error) {
	if (!(error instanceof RetryAfter) || !Number.isFinite(error.delayMs)) return void 0;
	return Math.min(MAX_DELAY_MS, Math.max(0, error.delayMs));
}
// src/core/record.ts
/** How many infrastructure errors in a row a message of the inbox survives. */
const MAX_LOST = 20;
/** Writes down what did not end in a commit, each time in a transaction of its own, and says so. */
var Recorder = class {
	#engine;
	#consumer;
	#settings;
	constructor(engine, consumer, settings) {
		this.#engine = engine;
		this.#consumer = consumer;
		this.#settings = settings;
	}
	/**
	* Records the failure of a delivery: receipt + inbox row, or receipt + failed row. If a receipt is there already, its
	* token says whose: the handler's (it committed by itself), ours (recorded before an unknown commit), or another's.
	*/
	async firstDelivery(stored, error, attempt, handlerTokens = /* @__PURE__ */ new Set()) {
		const verdict = this.#judge(error, attempt);
		const broken = {
			kind: "fail",
			reason: "broken-atomicity",
			error: brokenAtomicity(error)
		};
		const ours = /* @__PURE__ */ new Set();
		return this.#unlessBusy(stored, async () => {
			const result = await persist(this.#engine, () => {
				const token = this.#engine.random.token();
				return this.#take(stored, token, (receipt) => {
					const recorded = receipt !== void 0 && ours.has(receipt.token);
					ours.add(token);
					if (recorded) return {
						value: verdict,
						writes: void 0
					};
					if (receipt === void 0) return {
						value: verdict,
						writes: this.#writes(stored, verdict, attempt)
					};
					if (!handlerTokens.has(receipt.token)) return {
						value: receipt,
						writes: void 0
					};
					return {
						value: broken,
						writes: this.#writes(stored, broken, attempt)
					};
				});
			});
			return "kind" in result ? this.#report(stored, result, attempt) : this.taken(stored, result);
		});
	}
	/** A message that was taken before: a duplicate, unless it is another message under the same identity. */
	taken(stored, receipt) {
		const { source, id, type, fingerprint } = stored;
		if (receipt.source !== source || receipt.id !== id) return this.#conflict(stored, receipt);
		const same = receipt.fingerprint === fingerprint && receipt.type === type;
		if (!same && this.#settings.onMismatch === "conflict") return this.#conflict(stored, receipt);
		return this.duplicate(stored, receipt, !same);
	}
	/** Keeps a message whose handler committed by itself: its receipt is there already. */
	broken(stored, error, attempts) {
		return this.#keep(stored, {
			kind: "fail",
			reason: "broken-atomicity",
			error: brokenAtomicity(error)
		}, attempts);
	}
	/** Keeps a message whose identity belongs to another one. */
	async #conflict(stored, { id, source, takenAt }) {
		const error = new HapaxError("conflict", `another message was taken under this identity: ${id} of ${source}, ${takenAt === void 0 ? "just now" : `at ${takenAt.toISOString()}`}`, { fields: {
			id,
			source,
			takenAt
		} });
		await this.#keep(stored, {
			kind: "fail",
			reason: "conflict",
			error
		}, 0);
		return outcome("conflict", error);
	}
	/** Writes a message to the failed store and nothing else. */
	async #keep(stored, verdict, attempts) {
		await persist(this.#engine, () => unit(this.#engine, this.#options(), { kind: "plain" }, async () => ({
			value: void 0,
			writes: this.#writes(stored, verdict, attempts)
		})));
		return this.#report(stored, verdict, attempts);
	}
	/** Writes deliveries to the inbox, to be worked from there; `starts` is 1 if this process begins at once. */
	async store(messages, starts) {
		try {
			const found = await this.#stored(messages, starts);
			const outcomes = [];
			for (const [index, message] of messages.entries()) outcomes.push(await this.#storedOutcome(message, found[index]));
			return outcomes;
		} catch (error) {
			if (!isHapaxError(error, "busy")) throw error;
			if (messages.length === 1) return [this.putBack(messages[0], "busy", error)];
			const outcomes = [];
			for (const message of messages) outcomes.push(...await this.store([message], starts));
			return outcomes;
		}
	}
	#storedOutcome(message, found) {
		if (found !== "stored") return this.taken(message, found);
		this.#engine.events.emit("stored", () => ({
			consumer: this.#consumer,
			message: ref(message)
		}));
		return outcome("stored");
	}
	#stored(messages, starts) {
		const ours = /* @__PURE__ */ new Set();
		return persist(this.#engine, () => {
			const token = this.#engine.random.token();
			const opening = {
				kind: "take",
				consumer: this.#consumer,
				token,
				messages
			};
			return unit(this.#engine, this.#options(), opening, async ({ existing }) => {
				const fresh = messages.filter(({ messageKey }) => !existing.has(messageKey));
				const value = messages.map(({ messageKey }) => {
					const receipt = existing.get(messageKey);
					return receipt === void 0 || ours.has(receipt.token) ? "stored" : receipt;
				});
				ours.add(token);
				const rows = fresh.map((message) => ({
					...this.#row(message, 0),
					starts,
					delayMs: 0,
					error: null
				}));
				return {
					value,
					writes: fresh.length === 0 ? void 0 : { inbox: rows }
				};
			});
		});
	}
	/**
	* Records the failure of a message that came from the inbox on its own row. No row means that another worker settled it,
	* or that the handler committed by itself: known for certain when the guard was gone, and to be feared when the handler
	* was cut off, because then nobody could look.
	*/
	async fromInbox(row, error) {
		const attempts = row.attempts + 1;
		const outcome = await this.#onItsRow(row, error, attempts);
		if (outcome !== void 0) return outcome;
		return isHapaxError(error, "broken-atomicity") || isHapaxError(error, "handler-timeout") ? this.broken(row.message, error, attempts) : this.duplicate(row.message);
	}
	async #onItsRow(row, error, attempts) {
		const verdict = this.#judge(error, attempts);
		return (verdict.kind === "fail" ? await this.#fail(row, verdict, attempts) : await this.#reschedule({
			seq: row.seq,
			attempts,
			lost: 0,
			delayMs: verdict.delayMs,
			error: recordError(error)
		})) ? this.#report(row.message, verdict, attempts) : void 0;
	}
	/** Records that the database let a message of the inbox down: no attempt is used up, but it cannot go on for ever. */
	async lost(row, error) {
		const { seq, attempts } = row;
		const lost = row.lost + 1;
		if (lost >= MAX_LOST) {
			const verdict = {
				kind: "fail",
				reason: "infrastructure",
				error
			};
			return await this.#fail(row, verdict, attempts) ? this.#report(row.message, verdict, attempts) : this.duplicate(row.message);
		}
		const delayMs = Math.min(6e4, 100 * 2 ** lost) * this.#engine.random.number();
		await this.#reschedule({
			seq,
			attempts,
			lost,
			delayMs,
			error: recordError(error)
		});
		return this.putBack(row.message, "lost", error);
	}
	/** A message that kills its process every time must not be tried for ever. */
	async crashed(row) {
		const verdict = {
			kind: "fail",
			reason: "crash-loop",
			error: new HapaxError("crash-loop", `the process ended ${row.starts - 1} times while it worked on this message`)
		};
		return await this.#fail(row, verdict, row.attempts) ? this.#report(row.message, verdict, row.attempts) : this.duplicate(row.message);
	}
	duplicate(stored, receipt, mismatch = false) {
		const { events, logger } = this.#engine;
		const takenAt = receipt?.takenAt;
		const event = {
			consumer: this.#consumer,
			message: ref(stored),
			...takenAt && { takenAt }
		};
		if (mismatch) {
			logger.warn(event, "a duplicate came with another payload than the first one");
			events.emit("mismatch", () => event);
		}
		logger.debug(event, "duplicate");
		events.emit("duplicate", () => event);
		return DUPLICATE;
	}
	putBack(stored, kind, error) {
		const { events, logger } = this.#engine;
		const event = {
			consumer: this.#consumer,
			message: ref(stored)
		};
		if (kind === "busy") {
			events.emit("busy", () => event);
			return outcome("busy", error);
		}
		logger.warn({
			...event,
			error: messageOf(error)
		}, "the transaction was lost; the message is put back");
		events.emit("rolled-back", () => ({
			...event,
			error
		}));
		return outcome("rolled-back", error);
	}
	#take(stored, token, decide) {
		const opening = {
			kind: "take",
			consumer: this.#consumer,
			token,
			messages: [stored]
		};
		return unit(this.#engine, this.#options(), opening, async ({ existing }) => decide(existing.get(stored.messageKey)));
	}
	async #unlessBusy(stored, work) {
		try {
			return await work();
		} catch (error) {
			if (isHapaxError(error, "busy")) return this.putBack(stored, "busy", error);
			throw error;
		}
	}
	#judge(error, attempt) {
		return judge(error, attempt, this.#settings.retry, this.#engine.random);
	}
	#row(message, attempts) {
		return {
			consumer: this.#consumer,
			message,
			attempts
		};
	}
	#writes(message, verdict, attempts) {
		const row = {
			...this.#row(message, attempts),
			error: recordError(verdict.error)
		};
		if (verdict.kind === "fail") return { failed: [{
			...row,
			reason: verdict.reason
		}] };
		return { inbox: [{
			...row,
			starts: 0,
			delayMs: verdict.delayMs
		}] };
	}
	#fail(row, verdict, attempts) {
		const failed = {
			seq: row.seq,
			attempts,
			reason: verdict.reason,
			error: recordError(verdict.error)
		};
		return persist(this.#engine, () => this.#engine.store.fail(failed));
	}
	#reschedule(row) {
		return persist(this.#engine, () => this.#engine.store.reschedule(row));
	}
	#report(stored, verdict, attempt) {
		const { events, logger } = this.#engine;
		const { error } = verdict;
		const event = {
			consumer: this.#consumer,
			message: ref(stored),
			attempt
		};
		if (verdict.kind === "retry") {
			const { delayMs } = verdict;
			logger.info({
				...event,
				delayMs,
				error: messageOf(error)
			}, "the handler failed; trying again later");
			events.emit("retrying", () => ({
				...event,
				delayMs,
				error
			}));
			return outcome("retrying", error);
		}
		const { reason } = verdict;
		logger.error({
			...event,
			reason,
			error: messageOf(error)
		}, "the message is in the failed store");
		events.emit("failed", () => ({
			...event,
			reason,
			error
		}));
		return outcome(reason === "expired" ? "expired" : "failed", error);
	}
	#options() {
		const { lockTimeoutMs, timeoutMs } = this.#settings;
		return {
			lockTimeoutMs,
			idleTimeoutMs: timeoutMs
		};
	}
};
const DUPLICATE = outcome("duplicate");
/** Names a message without its payload. */
function ref({ id, source, type }) {
	return {
		id,
		source,
		type
	};
}
function brokenAtomicity(cause) {
	if (isHapaxError(cause, "broken-atomicity")) return cause;
	return new HapaxError("broken-atomicity", "the handler committed its transaction itself and then failed", { cause });
}
// src/core/inbox.ts
/** Works messages that wait in the inbox: the row that could be locked is the right to run. */
var InboxWork = class {
	#engine;
	#consumer;
	#settings;
	#recorder;
	constructor(engine, consumer, settings, recorder) {
		this.#engine = engine;
		this.#consumer = consumer;
		this.#settings = settings;
		this.#recorder = recorder;
	}
	/** Runs handlers for rows in one transaction; when one of them fails, in smaller ones. */
	async work(jobs, signal) {
		const started = this.#engine.clock.monotonic();
		const seqs = jobs.map(({ row }) => row.seq);
		const ours = /* @__PURE__ */ new Set();
		const attempted = await new Attempt(this.#engine, this.#settings, {
			opening: (_token, resolving) => {
				if (!resolving) ours.clear();
				return {
					kind: "claim",
					seqs,
					locked: resolving ? "wait" : "skip"
				};
			},
			body: (running) => this.#body(jobs, running, ours),
			onUnknown: () => this.#unknown(jobs),
			signal
		}).run();
		if (attempted.kind === "done") return this.#finish(jobs, ours, started);
		const broken = attempted.kind === "failed" && isHapaxError(attempted.error, "broken-atomicity");
		if (jobs.length > 1 && attempted.kind !== "lost" && !broken) return this.#smaller(jobs, signal);
		const { kind, error } = attempted;
		const outcomes = [];
		for (const { row } of jobs) if (broken && !ours.has(row.seq)) outcomes.push(this.#recorder.duplicate(row.message));
		else if (kind === "busy") outcomes.push(this.#recorder.putBack(row.message, "busy", error));
		else if (kind === "lost") outcomes.push(await this.#recorder.lost(row, error));
		else outcomes.push(await this.#recorder.fromInbox(row, asError$1(error)));
		return outcomes;
	}
	async #body(jobs, { unit, call }, ours) {
		const claimed = jobs.filter(({ row }) => unit.claimed.has(row.seq));
		if (claimed.length === 0) return {
			value: void 0,
			writes: void 0
		};
		for (const { row } of claimed) ours.add(row.seq);
		return {
			value: void 0,
			writes: await call(claimed)
		};
	}
	/** A row that was never ours is somebody else's; one that was and is gone was settled by our commit of unknown outcome. */
	#finish(jobs, ours, started) {
		const { events, clock } = this.#engine;
		const durationMs = clock.monotonic() - started;
		return jobs.map(({ row, stored, attempt }) => {
			if (!ours.has(row.seq)) return this.#recorder.duplicate(stored);
			events.emit("processed", () => ({
				consumer: this.#consumer,
				message: ref(stored),
				attempt,
				durationMs
			}));
			return PROCESSED$1;
		});
	}
	#unknown(jobs) {
		const messages = jobs.map((job) => ref(job.stored));
		this.#engine.events.emit("commit-unknown", () => ({
			consumer: this.#consumer,
			messages
		}));
	}
	async #smaller(jobs, signal) {
		const outcomes = [];
		for (const part of smaller(jobs)) outcomes.push(...await this.work(part, signal));
		return outcomes;
	}
};
const PROCESSED$1 = outcome("processed");
// src/core/parallel.ts
/** Runs `work` for every item, at most `limit` at a time. After a rejection no further item is begun. */
async function inParallel(items, limit, work) {
	if (items.length === 1) return work(items[0], 0);
	let next = 0;
	const lane = async () => {
		while (next < items.length) {
			const index = next++;
			try {
				await work(items[index], index);
			} catch (error) {
				next = items.length;
				throw error;
			}
		}
	};
	const failed = (await Promise.allSettled(Array.from({ length: Math.min(limit, items.length) }, lane))).find((each) => each.status === "rejected");
	if (failed) throw failed.reason;
}
// src/core/single-flight.ts
/** Lets one caller at a time work on a key; others wait without holding anything. */
var SingleFlight = class {
	#held = /* @__PURE__ */ new Map();
	/** Runs with all keys held. */
	async run(keys, work) {
		let release = () => {};
		const done = new Promise((resolve) => {
			release = resolve;
		});
		for (let held = this.#first(keys); held !== void 0; held = this.#first(keys)) await held;
		for (const key of keys) this.#held.set(key, done);
		try {
			return await work();
		} finally {
			for (const key of keys) this.#held.delete(key);
			release();
		}
	}
	#first(keys) {
		if (this.#held.size === 0) return void 0;
		for (const key of keys) {
			const held = this.#held.get(key);
			if (held !== void 0) return held;
		}
	}
};
// src/core/take.ts
/** Takes deliveries: receipt first, then the handlers, one commit. */
var Taker = class {
	#engine;
	#consumer;
	#settings;
	#recorder;
	constructor(engine, consumer, settings, recorder) {
		this.#engine = engine;
		this.#consumer = consumer;
		this.#settings = settings;
		this.#recorder = recorder;
	}
	/** Processes messages of distinct keys in one transaction; when one of them fails, in smaller ones. */
	async take(jobs, settings = this.#settings, group) {
		const started = this.#engine.clock.monotonic();
		const messages = jobs.map((job) => job.stored);
		const consumer = this.#consumer;
		const attempted = await new Attempt(this.#engine, settings, {
			opening: (token) => ({
				kind: "take",
				consumer,
				token,
				messages
			}),
			body: (running) => this.#body(jobs, running, group),
			onUnknown: () => this.#engine.events.emit("commit-unknown", () => ({
				consumer,
				messages: messages.map(ref)
			}))
		}).run();
		if (attempted.kind === "done") return this.#finish(jobs, attempted.value, started, group);
		if (jobs.length > 1 && attempted.kind !== "lost") return this.#smaller(jobs, attempted, group);
		if (attempted.kind === "failed") return [await this.#failed(jobs[0], attempted.error, attempted.tokens)];
		return jobs.map((job) => this.#recorder.putBack(job.stored, attempted.kind, attempted.error));
	}
	async #body(jobs, { unit, earlier, call }, group) {
		if (unit.existing.size === 0) return {
			value: ALL_FRESH,
			writes: await call(jobs)
		};
		const found = jobs.map(({ stored }) => {
			const receipt = unit.existing.get(stored.messageKey);
			if (receipt === void 0) return "fresh";
			if (earlier.has(receipt.token)) return "processed";
			return group?.tokens.has(receipt.token) ? "broken" : receipt;
		});
		const fresh = jobs.filter((_, index) => found[index] === "fresh");
		if (fresh.length === 0) return {
			value: found,
			writes: void 0
		};
		return {
			value: found,
			writes: await call(fresh)
		};
	}
	async #finish(jobs, found, started, group) {
		const durationMs = this.#engine.clock.monotonic() - started;
		if (found === ALL_FRESH && !this.#engine.events.heard("processed")) return jobs.map(() => PROCESSED);
		const outcomes = [];
		for (const [index, job] of jobs.entries()) outcomes.push(await this.#outcomeOf(job, found[index] ?? "fresh", durationMs, group));
		return outcomes;
	}
	#outcomeOf({ stored, attempt }, found, durationMs, group) {
		if (found === "broken") return this.#recorder.broken(stored, asError$1(group?.error), attempt);
		if (found !== "fresh" && found !== "processed") return this.#recorder.taken(stored, found);
		const consumer = this.#consumer;
		this.#engine.events.emit("processed", () => ({
			consumer,
			message: ref(stored),
			attempt,
			durationMs
		}));
		return PROCESSED;
	}
	async #smaller(jobs, attempted, outer) {
		const failed = attempted.kind === "failed";
		const settings = failed || !this.#engine.store.features.parallelWriters ? this.#settings : {
			...this.#settings,
			lockTimeoutMs: 1
		};
		const group = failed ? {
			...attempted,
			tokens: /* @__PURE__ */ new Set([...attempted.tokens, ...outer?.tokens ?? []])
		} : outer;
		const outcomes = [];
		for (const part of smaller(jobs)) outcomes.push(...await this.take(part, settings, group));
		return outcomes;
	}
	#failed(job, thrown, tokens) {
		const error = asError$1(thrown);
		if (this.#settings.onError === "store" || isFinal(error)) return this.#recorder.firstDelivery(job.stored, error, job.attempt, tokens);
		this.#engine.events.emit("rolled-back", () => ({
			consumer: this.#consumer,
			message: ref(job.stored),
			error
		}));
		return outcome("rolled-back", error);
	}
};
const PROCESSED = outcome("processed");
const ALL_FRESH = [];
// src/core/consumer.ts
/** A named reader of messages: each message takes effect once per consumer. */
var Consumer = class {
	name;
	#engine;
	#settings;
	#handlers = /* @__PURE__ */ new Map();
	#recorder;
	#taker;
	#inbox;
	#flight = new SingleFlight();
	#started = false;
	/** Made by `hapax.consumer`. */
	constructor(engine, name, options) {
		this.name = consumerName(name);
		this.#engine = engine;
		this.#settings = consumerSettings(options, engine.store.features.parallelWriters);
		this.#recorder = new Recorder(engine, name, this.#settings);
		this.#taker = new Taker(engine, name, this.#settings, this.#recorder);
		this.#inbox = new InboxWork(engine, name, this.#settings, this.#recorder);
	}
	/** Registers the handler of a message type. */
	on(type, handler) {
		return this.#register({
			kind: "one",
			type,
			call: handler
		});
	}
	/** Registers a handler that takes the messages of a group as one array. */
	onMany(type, handler) {
		return this.#register({
			kind: "many",
			type,
			call: handler
		});
	}
	/** Registers a handler and returns the function that takes its messages: one line around what you have. */
	wrap(type, handler) {
		this.on(type, handler);
		return (message) => this.handle(message);
	}
	/**
	* Processes one delivery. Resolves with what became of it; `ack` says whether the broker may forget it. Rejects only when
	* the database could not be reached or could not tell: then do not acknowledge.
	*/
	async handle(message) {
		const [result] = await this.handleMany([message]);
		return result;
	}
	/** Processes deliveries, grouped as the consumer's `group` says. Outcomes are in the order of the messages. */
	handleMany(messages) {
		return this.#engine.activity.during(() => this.#handleMany(messages));
	}
	async #handleMany(messages) {
		if (!Array.isArray(messages)) expected("messages", "an array", messages);
		const entries = messages.map((message) => this.#entry(message));
		this.#refuseNested(entries);
		const unique = distinct(entries);
		const groups = inGroups(unique, this.groupSize);
		const results = [];
		await inParallel(groups, this.#settings.concurrency, async (group, index) => {
			results[index] = await this.#group(group);
		});
		const outcomes = results.length === 1 ? results[0] : results.flat();
		return unique === entries ? outcomes : this.#inOrder(entries, unique, outcomes);
	}
	/** The types that this consumer handles. */
	get types() {
		return [...this.#handlers.keys()];
	}
	/** How many messages may share a transaction. */
	get groupSize() {
		const { groupSize } = this.#settings;
		if (groupSize !== void 0) return groupSize;
		return [...this.#handlers.values()].some((handler) => handler.kind === "many") ? 100 : 1;
	}
	get concurrency() {
		return this.#settings.concurrency;
	}
	/** Whether it was made by this hapax. */
	isOf(engine) {
		return this.#engine === engine;
	}
	/** Called by a worker: from now on no handler may be added. */
	start() {
		if (this.#handlers.size === 0) expected(`consumer ${this.name}`, "a consumer with at least one handler", "none");
		this.#started = true;
	}
	/** Works rows of the inbox; called by a worker. */
	async work(rows, signal) {
		const jobs = [];
		const outcomes = /* @__PURE__ */ new Map();
		for (const row of rows) {
			const job = await this.#inboxJob(row);
			if ("status" in job) outcomes.set(row.seq, job);
			else jobs.push(job);
		}
		if (jobs.length > 0) {
			const results = await this.#guarded(jobs.map(storedOf), () => this.#inbox.work(jobs, signal));
			for (const [index, { row }] of jobs.entries()) outcomes.set(row.seq, results[index]);
		}
		return rows.map((row) => outcomes.get(row.seq));
	}
	#register(handler) {
		const { type } = handler.type;
		if (typeof handler.call !== "function") expected(`handler of ${type}`, "a function", handler.call);
		if (this.#started) throw new HapaxError("already-started", `expected handlers of ${this.name} to be registered before its worker starts, got ${type} afterwards`);
		if (this.#handlers.has(type)) throw new HapaxError("duplicate-handler", `expected one handler of ${type} in consumer ${this.name}, got a second one`);
		this.#handlers.set(type, handler);
		return this;
	}
	#entry(message) {
		const { missingId, maxAgeMs } = this.#settings;
		return intake(message, {
			missingId,
			maxAgeMs,
			maxBytes: this.#engine.maxBytes,
			clock: this.#engine.clock
		});
	}
	/** A handler that hands its own message to its own consumer would wait for itself. */
	#refuseNested(entries) {
		for (let held = working.getStore(); held !== void 0; held = held.parent) {
			if (held.ended || held.consumer !== this.name) continue;
			const keys = new Set(held.messages.map((message) => message.messageKey));
			if (!entries.some(({ stored }) => keys.has(stored.messageKey))) continue;
			throw new HapaxError("reentrant", `a handler of ${this.name} handed its own message to ${this.name} and would wait for itself`);
		}
	}
	async #group(entries) {
		const jobs = [];
		const toStore = [];
		const outcomes = /* @__PURE__ */ new Map();
		for (const entry of entries) {
			const preparing = this.#prepare(entry);
			const prepared = preparing instanceof Promise ? await preparing : preparing;
			if (prepared === "store") toStore.push(entry);
			else if ("status" in prepared) outcomes.set(entry.stored, prepared);
			else jobs.push(prepared);
		}
		if (toStore.length > 0) await this.#store(toStore, outcomes);
		const results = jobs.length === 0 ? [] : await this.#guarded(jobs.map(storedOf), () => this.#taker.take(jobs));
		if (jobs.length === entries.length) return results;
		for (const [index, { stored }] of jobs.entries()) outcomes.set(stored, results[index]);
		return entries.map(({ stored }) => outcomes.get(stored));
	}
	/** A job, or the outcome of a message that cannot become one, or that it has to go to the inbox. */
	#prepare(entry) {
		const { stored, refused } = entry;
		if (refused !== void 0) return this.#recorder.firstDelivery(stored, refused, 0);
		const handler = this.#handlers.get(stored.type);
		if (handler === void 0) return this.#withoutHandler(stored);
		if (this.#settings.receive === "store") return "store";
		if (entry.redelivered && this.#settings.onError === "store") return "store";
		const refuse = (error) => this.#recorder.firstDelivery(stored, asError$1(error), 0);
		try {
			const job = prepareJob(handler, stored, 1);
			return job instanceof Promise ? job.catch(refuse) : job;
		} catch (error) {
			return refuse(error);
		}
	}
	/** A type that another instance of this consumer handles (a rolling deploy) is kept for it; one nobody knows has failed. */
	async #withoutHandler(stored) {
		if (await this.#engine.store.isSubscribed(this.name, stored.type)) return "store";
		const known = this.types.join(", ") || "none";
		const error = new HapaxError("unknown-type", `expected a type that ${this.name} handles (${known}), got ${stored.type}`);
		return this.#recorder.firstDelivery(stored, error, 0);
	}
	/** Writes to the inbox; a redelivery is then run from there at once, so that its starts are counted. */
	async #store(entries, outcomes) {
		const direct = this.#settings.receive === "direct";
		const atOnce = entries.filter(({ stored }) => direct && this.#handlers.has(stored.type));
		const later = entries.filter((entry) => !atOnce.includes(entry));
		if (later.length > 0) await this.#storeAll(later, 0, outcomes);
		for (const entry of atOnce) {
			await this.#storeAll([entry], 1, outcomes);
			const row = outcomes.get(entry.stored)?.status === "stored" ? await this.#engine.store.inboxRow(this.name, entry.stored.messageKey) : void 0;
			if (row !== void 0) outcomes.set(entry.stored, (await this.work([row]))[0]);
		}
	}
	async #storeAll(entries, starts, outcomes) {
		const messages = entries.map((entry) => entry.stored);
		const results = await this.#guarded(messages, () => this.#recorder.store(messages, starts));
		for (const [index, entry] of entries.entries()) outcomes.set(entry.stored, results[index]);
	}
	async #inboxJob(row) {
		if (row.starts > 5) return this.#recorder.crashed(row);
		const handler = this.#handlers.get(row.message.type);
		try {
			return {
				...await prepareJob(handler, row.message, row.attempts + 1),
				row
			};
		} catch (error) {
			return this.#recorder.fromInbox(row, asError$1(error));
		}
	}
	/** One caller at a time per message, and a note for handlers that would wait for themselves. */
	#guarded(messages, work) {
		const keys = messages.map((message) => message.messageKey);
		const held = {
			consumer: this.name,
			messages,
			parent: working.getStore(),
			ended: false
		};
		return this.#flight.run(keys, () => working.run(held, work)).finally(() => {
			held.ended = true;
		});
	}
	/** A message that came twice in one call has the outcome of its first copy, or is a duplicate of it. */
	async #inOrder(entries, unique, outcomes) {
		const first = new Map(unique.map((entry, index) => [entry.stored.messageKey, {
			entry,
			index
		}]));
		const results = [];
		for (const entry of entries) {
			const { entry: taken, index } = first.get(entry.stored.messageKey);
			const result = outcomes[index];
			const own = entry === taken || !result.ack;
			results.push(own ? result : await this.#recorder.taken(entry.stored, taken.stored));
		}
		return results;
	}
};
const storedOf = ({ stored }) => stored;
function consumerName(name) {
	if (/[\u0000-\u001f\u007f]/.test(text$1("name", name))) expected("name", "a name without control characters", name);
	return name;
}
function distinct(entries) {
	const first = /* @__PURE__ */ new Map();
	for (const entry of entries) if (!first.has(entry.stored.messageKey)) first.set(entry.stored.messageKey, entry);
	return first.size === entries.length ? entries : [...first.values()];
}
function inGroups(items, size) {
	if (items.length <= size) return items.length === 0 ? [] : [items];
	const groups = [];
	for (let start = 0; start < items.length; start += size) groups.push(items.slice(start, start + size));
	return groups;
}
// src/core/events.ts
/** The one stream of events of a hapax. */
var EventHub = class {
	#listeners = /* @__PURE__ */ new Map();
	#logger;
	constructor(logger) {
		this.#logger = logger;
	}
	on(name, listener) {
		const listeners = this.#listeners.get(name) ?? /* @__PURE__ */ new Set();
		this.#listeners.set(name, listeners.add(listener));
		return () => listeners.delete(listener);
	}
	/** Whether anybody listens. */
	heard(name) {
		return (this.#listeners.get(name)?.size ?? 0) > 0;
	}
	/** Builds the event only if somebody listens. */
	emit(name, event) {
		const listeners = this.#listeners.get(name);
		if (listeners === void 0 || listeners.size === 0) return;
		const value = event();
		for (const listener of listeners) try {
			const result = listener(value);
			if (result instanceof Promise) result.catch((error) => this.#failed(name, error));
		} catch (error) {
			this.#failed(name, error);
		}
	}
	#failed(event, error) {
		this.#logger.error({
			event,
			error: messageOf(asError$1(error))
		}, "a listener failed");
	}
};
// src/core/failed.ts
/** The failed store: look, try again, or give up. */
var FailedStore = class {
	#store;
	#wake;
	/** Made by `createHapax`. */
	constructor(store, wake) {
		this.#store = store;
		this.#wake = wake;
	}
	/** A page of failed messages, newest first; `before` takes the `seq` of the last one of the page before. */
	list(query = {}) {
		noOthers("query", query, [
			"consumer",
			"type",
			"reason",
			"before",
			"limit"
		]);
		const limit = positiveInteger("limit", query.limit, 50);
		if (limit > 1e3) expected("limit", "at most 1000", limit);
		return this.#store.failedList({
			...query,
			limit,
			...query.before && { before: checked(query.before) }
		});
	}
	/** One failed message, or undefined. */
	get(seq) {
		return this.#store.failedGet(checked(seq));
	}
	/** Puts a message back into the inbox under its own id, due at once. Rejects with `not-found` if it is not there. */
	async retry(seq) {
		if (!await this.#store.failedRetry(checked(seq))) throw notFound(seq);
		this.#wake();
	}
	/** Deletes a message for good; its receipt stays, so a redelivery is a duplicate. Rejects with `not-found`. */
	async discard(seq) {
		if (!await this.#store.failedDiscard(checked(seq))) throw notFound(seq);
	}
};
function checked(seq) {
	if (typeof seq !== "string" || !/^[1-9]\d{0,18}$/.test(seq)) expected("seq", "a whole number as text", seq);
	return seq;
}
function notFound(seq) {
	return new HapaxError("not-found", `there is no failed message ${seq}`, { fields: { seq } });
}
// src/core/logger.ts
/** Warnings and errors to standard error, one JSON line each; used where no logger is given. */
const consoleLogger = {
	debug: () => {},
	info: () => {},
	warn: (fields, message) => line("warn", fields, message),
	error: (fields, message) => line("error", fields, message)
};
/** A logger that says nothing. */
const silentLogger = {
	debug: () => {},
	info: () => {},
	warn: () => {},
	error: () => {}
};
function line(level, fields, message) {
	process.stderr.write(`${JSON.stringify({
		level,
		message: `hapax: ${message}`,
		...fields
	})}\n`);
}
/** The same logger, which cannot disturb: what it throws is dropped, because there is nowhere left to say it. */
function safeLogger(logger) {
	const safe = (level) => (fields, message) => {
		try {
			const result = logger[level](fields, message);
			if (result instanceof Promise) result.catch(() => {});
		} catch {}
	};
	return {
		debug: safe("debug"),
		info: safe("info"),
		warn: safe("warn"),
		error: safe("error")
	};
}
// src/core/publish.ts
/** What was published inside one of hapax's transactions and is not written yet. */
var Waiting = class {
	waiting = [];
	written = [];
	running = 0;
	/** The transaction has settled, or is about to: what comes now would be lost. */
	closed = false;
};
/** Turns data into messages and writes them: at once in the user's own transactions, last in hapax's. */
var Publisher = class {
	#options;
	#buffers = /* @__PURE__ */ new WeakMap();
	constructor(options) {
		this.#options = options;
	}
	/** Publishes in a transaction of hapax's or of the user's own. */
	async publish(tx, drafts) {
		const buffer = this.#buffers.get(tx);
		if (buffer !== void 0) return this.#buffered(tx, buffer, drafts);
		await this.#options.store.assertTransaction(tx);
		const prepared = await this.#prepareAll(drafts);
		return this.#write(tx, prepared);
	}
	/** Opens the buffer of a transaction of hapax's own. */
	open(tx) {
		const buffer = new Waiting();
		this.#buffers.set(tx, buffer);
		return {
			publish: async (type, data, options = {}, cause) => {
				const [published] = await this.#buffered(tx, buffer, [type.of(data, {
					...cause,
					...options
				})]);
				return published;
			},
			flush: (unit) => this.#flush(unit, buffer),
			committed: () => this.#committed(buffer),
			close: () => {
				buffer.closed = true;
				this.#buffers.delete(tx);
			}
		};
	}
	async #buffered(tx, buffer, drafts) {
		buffer.running += 1;
		try {
			const prepared = await this.#prepareAll(drafts);
			if (buffer.closed) throw transactionClosed();
			if (!(this.#options.delivery === "local" && drafts.some(({ options }) => options.id !== void 0)) && !drafts.some(({ options }) => options.now)) {
				for (const each of prepared) buffer.waiting.push(each);
				return prepared.map(({ message }) => ({ id: message.id }));
			}
			const answers = await this.#write(tx, prepared);
			for (const each of prepared) buffer.written.push(each);
			return answers;
		} finally {
			buffer.running -= 1;
		}
	}
	async #flush(unit, buffer) {
		if (buffer.running > 0) throw new HapaxError("unawaited-publish", "the handler returned while a publish was still running: await every publish");
		const rows = buffer.waiting.splice(0);
		for (const row of rows) buffer.written.push(row);
		if (rows.length === 0) return {};
		if (this.#options.delivery === "relay") return { outbox: rows };
		await unit.check();
		await this.#write(unit.tx, rows);
		return {};
	}
	#committed(buffer) {
		if (buffer.written.length === 0) return;
		const { events, delivery, wake } = this.#options;
		for (const { message } of buffer.written) {
			const { id, source, type, key } = message;
			events.emit("published", () => ({
				message: {
					id,
					source,
					type
				},
				...key === null ? {} : { key }
			}));
		}
		if (delivery === "local") wake();
	}
	async #write(tx, prepared) {
		const { store, delivery } = this.#options;
		if (delivery === "local") return this.#writeLocal(tx, prepared);
		await store.writeOutbox(tx, prepared);
		return prepared.map(({ message }) => ({ id: message.id }));
	}
	async #writeLocal(tx, prepared) {
		const first = /* @__PURE__ */ new Map();
		const rows = [];
		for (const { message, delayMs } of prepared) {
			if (first.has(message.messageKey)) continue;
			first.set(message.messageKey, rows.length);
			rows.push({
				message,
				delayMs,
				consumers: this.#options.consumersOf(message.type)
			});
		}
		const results = await this.#options.store.writeLocal(tx, rows);
		const seen = /* @__PURE__ */ new Set();
		return prepared.map(({ message }) => {
			const result = results[first.get(message.messageKey)];
			if (result === void 0 || result.consumers === 0) throw noConsumer(message.type);
			const duplicate = result.fresh === 0 || seen.has(message.messageKey);
			seen.add(message.messageKey);
			return duplicate ? {
				id: message.id,
				duplicate: true
			} : { id: message.id };
		});
	}
	async #prepareAll(drafts) {
		const prepared = [];
		for (const draft of drafts) {
			const each = this.#prepare(draft);
			prepared.push(each instanceof Promise ? await each : each);
		}
		return prepared;
	}
	#prepare({ message: type, data, options }) {
		checkOptions(options);
		const json = serialise(type.type, data);
		const prepared = this.#stored(type, json, data, options);
		const checked = type.parse(json === void 0 ? void 0 : JSON.parse(json));
		return checked instanceof Promise ? checked.then(() => prepared) : prepared;
	}
	#stored(type, json, data, options) {
		const { source, mintId, clock, maxBytes } = this.#options;
		const id = options.id ?? mintId();
		const bytes = json === void 0 ? /* @__PURE__ */ new Uint8Array(0) : Buffer.from(json);
		const attributes = packAttributes({
			...options,
			time: new Date(clock.now()).toISOString(),
			datacontenttype: "application/json"
		});
		const size = bytes.byteLength + attributes.length;
		if (size > maxBytes) throw new HapaxError("too-large", `expected a message of at most ${maxBytes} bytes, got ${size}`, { fields: {
			type: type.type,
			bytes: size
		} });
		return {
			message: {
				messageKey: messageKey(source, id),
				source,
				id,
				type: type.type,
				key: keyOf(type, data, options),
				attributes,
				data: bytes,
				fingerprint: fingerprint(bytes)
			},
			relay: options.relay ?? "default",
			delayMs: options.delayMs ?? 0
		};
	}
};
function noConsumer(type) {
	return new HapaxError("no-consumer", `nobody consumes ${type}: with local delivery a consumer has to be registered, or a worker started, before it is published`, { fields: { type } });
}
function serialise(type, data) {
	if (data === void 0) return void 0;
	try {
		const json = JSON.stringify(data);
		if (json !== void 0) return json;
	} catch (cause) {
		throw new HapaxError("invalid-payload", `expected data of ${type} to be a JSON value: ${messageOf(asError$1(cause))}`, { cause });
	}
	throw new HapaxError("invalid-payload", `expected data of ${type} to be a JSON value, got ${describe(data)}`);
}
function keyOf(type, data, options) {
	const key = options.key ?? type.keyOf(data);
	if (key === void 0 || key === null) return null;
	if (!isText(key, 2048)) expected("key", `a non-empty, well-formed string of at most ${MAX_TEXT_BYTES} bytes`, key);
	return key;
}
const PUBLISH_OPTIONS = [
	"id",
	"key",
	"subject",
	"headers",
	"correlationId",
	"causationId",
	"traceparent",
	"tracestate",
	"delayMs",
	"relay",
	"now"
];
function checkOptions(options) {
	noOthers("options of publish", options, PUBLISH_OPTIONS);
	const { id, delayMs, relay, headers } = options;
	if (id !== void 0 && !isText(id, 2048)) throw new HapaxError("invalid-id", `expected id to be a non-empty, well-formed string of at most ${MAX_TEXT_BYTES} bytes, got ${describe(id)}`);
	if (delayMs !== void 0 && !(Number.isFinite(delayMs) && delayMs >= 0)) expected("delayMs", "a number of at least 0", delayMs);
	if (relay !== void 0 && !isText(relay, 255)) expected("relay", "a name", relay);
	for (const [name, value] of Object.entries(headers ?? {})) if (typeof value !== "string") expected(`headers.${name}`, "a string", value);
}
// src/core/signal.ts
/** Wakes whoever waits; a wake-up while nobody waits is kept for the next one. */
var Signal = class {
	#pending = false;
	#wake;
	notify() {
		this.#pending = true;
		this.#wake?.();
	}
	/** Resolves at the next wake-up, or after `ms`. */
	wait(clock, ms) {
		return new Promise((resolve) => {
			const done = () => {
				cancel();
				this.#pending = false;
				this.#wake = void 0;
				resolve();
			};
			const cancel = clock.after(ms, done);
			this.#wake = done;
			if (this.#pending) done();
		});
	}
};
// src/core/worker.ts
/** Works the inbox of its consumers until it is stopped. */
var Worker = class {
	#engine;
	#consumers;
	#pollMs;
	#signal = new Signal();
	#running = [];
	#busy = /* @__PURE__ */ new Set();
	/** Starts of rows that this process survived although no end could be recorded: they are no crashes. */
	#survived = /* @__PURE__ */ new Map();
	#abort = new AbortController();
	#onStop;
	#state = "new";
	#loop;
	#idle = [];
	#errors = 0;
	/** A message runs that nothing else may run beside. */
	#alone = false;
	#emptyAt = 0;
	/** Made by `hapax.worker`. */
	constructor(engine, options, onStop) {
		noOthers("options of worker", options, ["consume", "pollMs"]);
		this.#pollMs = positiveInteger("pollMs", options.pollMs, 1e3);
		if (!Array.isArray(options.consume) || options.consume.length === 0) expected("consume", "a list of consumers", options.consume);
		for (const consumer of options.consume) if (!(consumer instanceof Consumer) || !consumer.isOf(engine)) expected("consume", "a list of consumers of the same hapax", consumer);
		this.#engine = engine;
		this.#consumers = new Map(options.consume.map((consumer) => [consumer.name, consumer]));
		this.#onStop = onStop;
	}
	/** Registers the subscriptions and begins to work. Rejects when the database is not there or not migrated. */
	async start() {
		if (this.#state !== "new") throw new HapaxError("already-started", `expected a new worker, got one that is ${this.#state}`);
		this.#state = "running";
		try {
			for (const consumer of this.#consumers.values()) consumer.start();
			await this.#engine.store.ready();
			for (const { name, types } of this.#consumers.values()) await this.#engine.store.subscribe(name, types);
		} catch (error) {
			this.#state = "new";
			throw error;
		}
		this.#loop = this.#work();
	}
	/** Resolves when nothing is due and nothing is in hand, here or elsewhere; what waits for a later attempt is not due. */
	drain() {
		if (this.#state !== "running") return Promise.resolve();
		return new Promise((resolve) => {
			this.#idle.push(resolve);
			this.#signal.notify();
		});
	}
	/** Stops taking messages and waits for the handlers that are running, at most until the deadline. */
	async stop(options = {}) {
		noOthers("options of stop", options, ["deadlineMs"]);
		const { deadlineMs } = options;
		const limitMs = deadlineMs === Number.POSITIVE_INFINITY ? MAX_MS : numberFrom("deadlineMs", 0, deadlineMs, 3e4);
		if (this.#state === "new") this.#state = "stopped";
		if (this.#state === "running") this.#state = "stopping";
		this.#signal.notify();
		let cancel = () => {};
		const late = new Promise((resolve) => {
			cancel = this.#engine.clock.after(limitMs, resolve);
		});
		const finished = Promise.allSettled([this.#loop, ...this.#running.map((run) => run.done)]);
		await Promise.race([finished, late.then(() => this.#abort.abort(stopped()))]);
		cancel();
		if (this.#abort.signal.aborted) await Promise.race([finished, pause(this.#engine.clock, ABORT_MS)]);
		this.#state = "stopped";
		this.#onStop(this);
		for (const resolve of this.#idle.splice(0)) resolve();
	}
	async [Symbol.asyncDispose]() {
		await this.stop();
	}
	/** Something may be due. */
	wake() {
		this.#signal.notify();
	}
	async #work() {
		while (this.#state === "running") {
			const pauseMs = await this.#round().catch((error) => this.#backOff(error));
			if (pauseMs > 0 && this.#state === "running") await this.#signal.wait(this.#engine.clock, pauseMs);
		}
	}
	/** Reads what is due into the free places; answers how long to wait before the next look. */
	async #round() {
		const asking = this.#idle.splice(0);
		try {
			if (this.#busy.size === 0) this.#emptyAt = this.#engine.clock.monotonic();
			if (this.#alone || this.#wantsToBeEmpty()) return this.#pollMs;
			if (this.#busy.size === 0 && await this.#takeSuspect()) return this.#pollMs;
			const idle = this.#busy.size === 0;
			const taken = await this.#takeFresh();
			this.#errors = 0;
			if (taken > 0) return this.#busy.size < this.#places() ? 0 : this.#pollMs;
			return await this.#rest(idle ? asking : []);
		} finally {
			this.#idle.push(...asking);
		}
	}
	/** A message whose start had no end may be what ended its process: it runs alone, so that it cannot take others along. */
	async #takeSuspect() {
		for (const consumer of this.#consumers.values()) {
			const [row] = await this.#due(consumer, 1, true);
			if (row === void 0) continue;
			this.#alone = true;
			this.#begin(consumer, [row]);
			return true;
		}
		return false;
	}
	/** Suspects wait for an empty worker, and a busy one may never be empty by itself. */
	#wantsToBeEmpty() {
		return this.#busy.size > 0 && this.#engine.clock.monotonic() - this.#emptyAt > EMPTY_EVERY_MS;
	}
	async #takeFresh() {
		let taken = 0;
		for (const consumer of this.#consumers.values()) {
			const free = places(consumer) - this.#running.filter((run) => run.consumer === consumer).reduce(rowsOf, 0);
			if (free <= 0) continue;
			const rows = await this.#due(consumer, free, false);
			for (let start = 0; start < rows.length; start += consumer.groupSize) this.#begin(consumer, rows.slice(start, start + consumer.groupSize));
			taken += rows.length;
		}
		return taken;
	}
	async #due(consumer, limit, started) {
		const types = /* @__PURE__ */ new Map([[consumer.name, consumer.types]]);
		const options = {
			limit,
			started,
			except: [...this.#busy],
			hideMs: HIDE_MS
		};
		return (await this.#engine.store.due(types, options)).map((row) => this.#withoutSurvived(row));
	}
	async #rest(asking) {
		const types = new Map([...this.#consumers].map(([name, consumer]) => [name, consumer.types]));
		const nextMs = await this.#engine.store.nextDueMs(types);
		if (nextMs !== 0 && asking.length > 0) {
			if (await this.#engine.store.inFlight(types)) return Math.min(nextMs ?? LOCKED_MS, LOCKED_MS);
			for (const resolve of asking.splice(0)) resolve();
		}
		return Math.max(nextMs === 0 ? LOCKED_MS : 1, Math.min(nextMs ?? this.#pollMs, this.#pollMs));
	}
	#places() {
		let sum = 0;
		for (const consumer of this.#consumers.values()) sum += places(consumer);
		return sum;
	}
	#begin(consumer, rows) {
		for (const { seq } of rows) this.#busy.add(seq);
		const run = {
			consumer,
			rows,
			done: consumer.work(rows, this.#abort.signal).then((outcomes) => this.#remember(rows, outcomes), (error) => {
				this.#remember(rows, []);
				this.#report(asError$1(error));
			}).finally(() => {
				for (const { seq } of rows) this.#busy.delete(seq);
				this.#running.splice(this.#running.indexOf(run), 1);
				if (this.#busy.size === 0) this.#alone = false;
				this.#signal.notify();
			})
		};
		this.#running.push(run);
	}
	#withoutSurvived(row) {
		const survived = this.#survived.get(row.seq);
		return survived === void 0 ? row : {
			...row,
			starts: row.starts - survived
		};
	}
	#remember(rows, outcomes) {
		if (this.#survived.size > MAX_SURVIVED) this.#survived.clear();
		for (const [index, { seq }] of rows.entries()) if (outcomes[index]?.ack) this.#survived.delete(seq);
		else this.#survived.set(seq, (this.#survived.get(seq) ?? 0) + 1);
	}
	#backOff(thrown) {
		this.#report(asError$1(thrown));
		this.#errors = Math.min(this.#errors + 1, 10);
		return Math.min(3e4, 100 * 2 ** this.#errors) * (.5 + this.#engine.random.number() / 2);
	}
	#report(error) {
		this.#engine.logger.error({
			consumers: [...this.#consumers.keys()],
			error: messageOf(error)
		}, "the worker goes on after an error");
		this.#engine.events.emit("worker-error", () => ({
			consumers: [...this.#consumers.keys()],
			error
		}));
	}
};
const LOCKED_MS = 50;
/** How long others do not see a row that was read: enough to get a connection and lock it. */
const HIDE_MS = 3e3;
const EMPTY_EVERY_MS = 3e4;
const ABORT_MS = 5e3;
const MAX_SURVIVED = 1e4;
function places(consumer) {
	return consumer.concurrency * consumer.groupSize;
}
function rowsOf(sum, { rows }) {
	return sum + rows.length;
}
function stopped() {
	return new HapaxError("transaction-lost", "the worker was stopped before the handler had finished");
}
// src/core/hapax.ts
/** Puts a hapax together. Nothing is opened before it is needed. */
function createHapax(options) {
	noOthers("options of createHapax", options, [
		"store",
		"source",
		"delivery",
		"logger",
		"maxMessageBytes",
		"clock",
		"random"
	]);
	if (typeof options.store?.transaction !== "function") expected("store", "a store, for example sqlite({ path })", options.store);
	return new Core(options);
}
var Core = class {
	events;
	failed;
	activity = new Activity();
	#store;
	#engine;
	#publisher;
	#consumers = /* @__PURE__ */ new Map();
	#workers = /* @__PURE__ */ new Set();
	constructor(options) {
		const { store, clock = systemClock, random = systemRandom } = options;
		const logger = safeLogger(options.logger ?? consoleLogger);
		const maxBytes = positiveInteger("maxMessageBytes", options.maxMessageBytes, 1048576);
		this.#store = store;
		this.events = new EventHub(logger);
		this.#publisher = new Publisher({
			store,
			source: text$1("source", options.source, MAX_TEXT_BYTES),
			delivery: oneOf("delivery", ["relay", "local"], options.delivery, "relay"),
			maxBytes,
			clock,
			mintId: uuidv7Source(clock, random),
			events: this.events,
			consumersOf: (type) => [...this.#consumers.values()].filter((each) => each.types.includes(type)).map((each) => each.name),
			wake: () => this.#wake()
		});
		const { events, activity } = this;
		this.#engine = {
			store,
			publisher: this.#publisher,
			events,
			activity,
			logger,
			clock,
			random,
			maxBytes
		};
		this.failed = new FailedStore(store, () => this.#wake());
	}
	migrate() {
		return this.#store.migrate();
	}
	migrations() {
		return this.#store.migrations();
	}
	transaction(work, options = {}) {
		return this.activity.during(() => this.#transaction(work, options));
	}
	async #transaction(work, options) {
		noOthers("options of transaction", options, ["isolation", "idleTimeoutMs"]);
		const idleTimeoutMs = positiveInteger("idleTimeoutMs", options.idleTimeoutMs, 6e4);
		const unitOptions = {
			isolation: options.isolation,
			idleTimeoutMs,
			lockTimeoutMs: QUEUE_MS
		};
		let committed = () => {};
		const value = await unit(this.#engine, unitOptions, { kind: "plain" }, async (opened) => {
			const buffer = this.#publisher.open(opened.tx);
			committed = () => buffer.committed();
			try {
				return {
					value: await work(opened.tx),
					writes: await buffer.flush(opened)
				};
			} finally {
				buffer.close();
			}
		});
		committed();
		return value;
	}
	async publish(tx, type, data, options) {
		if (typeof type?.of !== "function") expected("type", "a message type made by defineMessage", type);
		const [published] = await this.publishMany(tx, [type.of(data, options)]);
		return published;
	}
	async publishMany(tx, drafts) {
		if (!Array.isArray(drafts)) expected("drafts", "a list of messages made by of()", drafts);
		return drafts.length === 0 ? [] : this.#publisher.publish(tx, drafts);
	}
	consumer(name, options = {}) {
		if (this.#consumers.has(name)) throw new HapaxError("duplicate-handler", `expected one consumer of the name ${name}, got a second one`);
		const consumer = new Consumer(this.#engine, name, options);
		this.#consumers.set(name, consumer);
		return consumer;
	}
	worker(options) {
		const worker = new Worker(this.#engine, options, (stopped) => this.#workers.delete(stopped));
		this.#workers.add(worker);
		return worker;
	}
	status() {
		return this.#store.status();
	}
	explain(id, source) {
		return this.#store.trace(text$1("id", id, MAX_TEXT_BYTES), source);
	}
	async close() {
		if (this.activity.closed) return;
		this.activity.close();
		await Promise.all([...this.#workers].map((worker) => worker.stop()));
		await within(this.#engine.clock, CLOSE_MS, this.activity.idle(), () => {});
		await this.#store.close();
	}
	#wake() {
		for (const worker of this.#workers) worker.wake();
	}
};
/** How long a transaction of the user's waits for its turn where a database has one writer. */
const QUEUE_MS = 3e4;
/** How long closing waits for what is under way. */
const CLOSE_MS = 6e4;
export { Permanent, createHapax, defineMessage, mysql, postgres, silentLogger, sqlite };
