// hapax as of 586a758, with schema 2: what may still be deployed when the next migration runs.
// Made by `node scripts/freeze-previous.ts 586a758 2`; never edited.
import { createHash, hash, randomFillSync, randomUUID } from "node:crypto";
import { dirname, resolve } from "node:path";
import { AsyncLocalStorage } from "node:async_hooks";
import { DatabaseSync, StatementSync } from "node:sqlite";
import { closeSync, openSync, readFileSync, realpathSync, statSync, statfsSync } from "node:fs";
import { hostname, userInfo } from "node:os";
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
/** What differs between two errors of one cause: UUIDs, quoted parts, runs of hexadecimal digits, numbers. */
const PARTICULARS = /[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|"[^"]{0,1000}"|'[^']{0,1000}'|`[^`]{0,1000}`|\b0x[0-9a-f]+\b|\b(?=[a-f]{0,63}\d)[0-9a-f]{6,}\b|\d+/gi;
/** 16 hexadecimal digits that are equal for errors that differ only in numbers, ids and quoted values. */
function errorHash({ name, code, message }) {
	const alike = JSON.stringify([
		name,
		code ?? null,
		message.replace(PARTICULARS, "#")
	]);
	return hash("sha256", alike, "hex").slice(0, 16);
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
/** The longest span of time that databases can count back. */
const MAX_SPAN_MS = 31536e8;
/** A span of days or years: longer than a timer can be set to. */
function spanMs(name, value) {
	if (!Number.isSafeInteger(value) || value < 1 || value > MAX_SPAN_MS) expected(name, `a whole number of milliseconds between 1 and ${MAX_SPAN_MS}`, value);
	return value;
}
// src/core/sql/checkup.ts
/** Looks at each; one that may not be looked at is a warning and keeps no other from being looked at. */
async function lookAt$1(query, checks) {
	const findings = [];
	for (const { check, statement, judge } of checks) try {
		const begun = performance.now();
		const { rows } = await query(statement);
		const halfMs = (performance.now() - begun) / 2;
		const verdicts = [judge(rows, {
			ms: Date.now() - halfMs,
			halfMs
		})].flat();
		for (const verdict of verdicts) findings.push({
			check,
			...verdict
		});
	} catch (error) {
		if (isHapaxError(error, "store-unavailable")) throw error;
		findings.push({
			check,
			...unseen(error)
		});
	}
	return findings;
}
function unseen(error) {
	return warning(`could not be looked at: ${messageOf(asError$1(error))}`, "Run this as a user who may read it, or look at it by hand.");
}
function ok$2(message) {
	return {
		level: "ok",
		message,
		advice: ""
	};
}
function warning(message, advice) {
	return {
		level: "warning",
		message,
		advice
	};
}
function error(message, advice) {
	return {
		level: "error",
		message,
		advice
	};
}
/** A clock further off than this is worth a word. */
const CLOCK_MS = 1e3;
/** Compares the database's clock (a column `ms`) with that of this process. */
function clockCheck(statement) {
	return {
		check: "clock",
		statement,
		judge: ([row], now) => {
			const offMs = Math.round(Number(row?.["ms"]) - now.ms);
			const sure = Math.ceil(now.halfMs);
			if (Math.abs(offMs) <= CLOCK_MS + sure) return ok$2(`the clocks differ by ${offMs} ms, give or take ${sure}`);
			return warning(`the clock of the database is ${Math.abs(offMs)} ms ${offMs < 0 ? "behind" : "ahead of"} that of this process`, "Keep both in time (NTP). Delays and retention follow the database; ids and the time of messages this process.");
		}
	};
}
/** Words that begin a line of a table that is no column. */
const NO_COLUMN = [
	"constraint",
	"primary",
	"unique",
	"index"
];
/** What the migrations make, read from their own text: by table, without schema or prefix. */
function expectedTables(migrations, bare) {
	const tables = /* @__PURE__ */ new Map();
	const table = (name) => {
		const known = tables.get(bare(name)) ?? {
			columns: /* @__PURE__ */ new Set(),
			indexes: /* @__PURE__ */ new Set()
		};
		tables.set(bare(name), known);
		return known;
	};
	for (const text of migrations.flatMap(({ sql }) => sql)) read(text, table, tables, bare);
	return new Map([...tables].map(([name, each]) => [name, {
		columns: [...each.columns],
		indexes: [...each.indexes]
	}]));
}
function read(text, table, all, bare) {
	const created = /^\s*create table (?:if not exists )?(\S+) \(\n([\s\S]*)\n\)/i.exec(text);
	const altered = /\balter table (\S+)/i.exec(text);
	for (const [, index] of text.matchAll(/\bdrop index (?:if exists )?(?:\S+\.)?`?(\w+)/gi)) for (const { indexes } of all.values()) indexes.delete(index);
	const name = created?.[1] ?? altered?.[1];
	if (name !== void 0) {
		const { columns, indexes } = table(name);
		for (const line of created?.[2]?.split("\n") ?? []) {
			const word = /^\s*`?(\w+)/.exec(line)?.[1];
			if (word !== void 0 && !NO_COLUMN.includes(word)) columns.add(word);
		}
		for (const [, column] of text.matchAll(/\badd column (?:if not exists )?`?(\w+)/gi)) columns.add(column);
		for (const [, index] of text.matchAll(/\b(?:constraint|index) (?:if not exists )?(\w+) (?:unique|primary key|\()/gi)) indexes.add(index);
	}
	const dropped = /^\s*drop table (?:if exists )?(\S+)/i.exec(text);
	if (dropped !== null) all.delete(bare(dropped[1]));
	const renamed = /^\s*alter table (\S+) rename to (\S+)/i.exec(text);
	if (renamed !== null) {
		all.set(bare(renamed[2]), table(renamed[1]));
		all.delete(bare(renamed[1]));
	}
	const index = /^\s*create (?:unique )?index (?:if not exists )?(\S+) on (\S+)/i.exec(text);
	if (index !== null) table(index[2]).indexes.add(index[1]);
}
/** Compares what is there, as `table.column` and `table.index`, with what should be. */
function schemaVerdict(expected, found) {
	const missing = [];
	for (const [name, { columns, indexes }] of expected) {
		if (!columns.some((column) => found.has(`${name}.${column}`))) {
			missing.push(`the whole table ${name}`);
			continue;
		}
		for (const part of [...columns, ...indexes]) if (!found.has(`${name}.${part}`)) missing.push(`${name}.${part}`);
	}
	if (missing.length === 0) return ok$2(`${expected.size} tables with every column and index`);
	return error(`missing from the tables: ${missing.join(", ")}`, "Somebody changed the tables by hand. npx hapax migrate --print shows how they are made: put back what is missing.");
}
/** A size for people. */
function size(bytes) {
	const units = [
		"bytes",
		"KiB",
		"MiB",
		"GiB",
		"TiB"
	];
	let value = bytes;
	let unit = 0;
	while (value >= 1024 && unit < units.length - 1) {
		value /= 1024;
		unit += 1;
	}
	return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}
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
/** A truth value: some databases have 0 and 1. */
function asBoolean(value) {
	return value === true || Number(value) === 1;
}
/** A stored error. One that somebody has spoilt must not keep a whole page from being seen. */
function asError(value) {
	if (value === null || value === void 0) return null;
	const text = asText(value);
	try {
		const { name = "Error", message = "", ...more } = JSON.parse(text);
		return {
			name: String(name),
			message: String(message),
			...more
		};
	} catch {
		return {
			name: "Error",
			message: text
		};
	}
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
// src/core/sql/look.ts
/** How many rows without order, and how many keys, a look lists per lane: twice the average, because lanes are not quite even. */
function pageOf({ limit, lanes }) {
	return Math.min(limit, Math.max(4, Math.ceil(2 * limit / lanes.length)));
}
/** The answer of the dialect's `look`, share by share. */
function asLooks(shares, rows) {
	const found = shares.map((share) => new Found(share));
	for (const row of rows) found[Number(row["share"])]?.add(row);
	return found.map((each) => each.look());
}
/** What was found of one share. */
var Found = class {
	#share;
	#entries = [];
	#keys = /* @__PURE__ */ new Map();
	/** As the dialect says it; undefined: keys come in the order of their bytes, a page of them per lane. */
	#after;
	#nextMs;
	constructor(share) {
		this.#share = share;
	}
	add(row) {
		const key = row["key"] === null || row["key"] === void 0 ? null : asText(row["key"]);
		const dueMs = Number(row["ms"]);
		if (key === null && dueMs > 0) {
			this.#nextMs = Math.min(this.#nextMs ?? Number.POSITIVE_INFINITY, dueMs);
			return;
		}
		const lane = Number(row["lane"]);
		const held = asBoolean(row["held"]);
		const suspect = Number(row["starts"]) > 0;
		this.#entries.push({
			seq: String(row["seq"]),
			type: asText(row["type"]),
			lane,
			key,
			bytes: Number(row["bytes"]),
			dueMs,
			held,
			suspect
		});
		if (key === null) return;
		this.#keys.set(lane, (this.#keys.get(lane) ?? /* @__PURE__ */ new Set()).add(key));
		if (row["more"] === void 0) return;
		this.#after ??= /* @__PURE__ */ new Map();
		if (asBoolean(row["more"])) this.#after.set(lane, key);
	}
	look() {
		const after = this.#after ?? this.#pageEnds();
		const keyed = this.#entries.filter((entry) => entry.key !== null).sort((x, y) => compareSeq(x.seq, y.seq));
		return {
			entries: [...this.#entries.filter((entry) => entry.key === null).sort(byAge), ...keyed],
			nextMs: this.#nextMs,
			after
		};
	}
	#pageEnds() {
		const page = pageOf(this.#share);
		const after = /* @__PURE__ */ new Map();
		for (const [lane, keys] of this.#keys) if (keys.size >= page) after.set(lane, lastOf(keys));
		return after;
	}
};
/** The last key by bytes, as databases sort them. */
function lastOf(keys) {
	let last;
	for (const key of keys) if (last === void 0 || bytewise(key, last) > 0) last = key;
	return last;
}
function bytewise(a, b) {
	return Buffer.compare(Buffer.from(encodeText(a)), Buffer.from(encodeText(b)));
}
function byAge(a, b) {
	return a.dueMs - b.dueMs || compareSeq(a.seq, b.seq);
}
/** Compares whole numbers that are texts. */
function compareSeq(a, b) {
	return a.length - b.length || (a < b ? -1 : a > b ? 1 : 0);
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
/**
* Repeats a migration that met transactions at work. It does not wait for long inside its own: whoever came later would
* wait behind it, and two that wait for each other end with an error for one of them.
*/
async function untilFree(migrate, random) {
	const endMs = systemClock.monotonic() + PATIENCE_MS;
	for (;;) try {
		return await migrate();
	} catch (error) {
		if (!isHapaxError(error, "transaction-conflict") || systemClock.monotonic() > endMs) throw error;
		await pause(systemClock, 50 + 200 * random.number());
	}
}
/** How long a migration tries to get hold of tables that are in use. */
const PATIENCE_MS = 12e4;
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
	].map((text) => ended(text.trim(), dialect)).join("\n");
}
function ended(text, { delimiter }) {
	if (delimiter === void 0 || !text.includes(";")) return `${text};\n`;
	return `delimiter ${delimiter}\n${text}${delimiter}\ndelimiter ;\n`;
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
const ALL_LANES = Array.from({ length: 64 }, (_, lane) => lane);
/**
* The lane of a message: by its key where order counts, so that a key stays together, else by its identity, so that a busy
* key is everybody's work. SQL computes the same: the first byte of SHA-256 of the key, the last byte of the message key.
*/
function laneOf({ key, messageKey }, ordered) {
	if (ordered && key !== null) return hash("sha256", key, "buffer")[0] % 64;
	return Number.parseInt(messageKey.slice(-2), 16) % 64;
}
/**
* Which lanes are a worker's: each lane belongs to the worker with the highest hash of (worker, lane). When one comes or
* goes, only its own lanes change hands.
*/
function lanesOf(worker, workers) {
	const seeds = workers.map(seedOf);
	return ALL_LANES.filter((lane) => heaviest(String(lane), workers, seeds) === worker);
}
/** The worker that something belongs to. */
function ownerOf(thing, workers) {
	return heaviest(thing, workers, workers.map(seedOf));
}
function heaviest(thing, workers, seeds) {
	let best;
	let most = -1;
	for (const [index, worker] of workers.entries()) {
		const weight = mixed(fnv(thing, seeds[index]));
		if (weight > most || weight === most && worker > best) {
			best = worker;
			most = weight;
		}
	}
	return best;
}
/** The hash of what every pair with this worker begins with. */
function seedOf(worker) {
	return fnv(`${worker}/`, 2166136261);
}
/** FNV-1a with a final mix: cheap, and even enough for this. */
function fnv(text, seed) {
	let value = seed;
	for (let index = 0; index < text.length; index++) value = Math.imul(value ^ text.charCodeAt(index), 16777619);
	return value;
}
function mixed(hashed) {
	let value = Math.imul(hashed ^ hashed >>> 16, 2246822507);
	value = Math.imul(value ^ value >>> 13, 3266489909);
	return (value ^ value >>> 16) >>> 0;
}
// src/core/sql/operator-rows.ts
/** A row of the failed store. */
function asFailed(row) {
	return {
		seq: asSeq(row["seq"]),
		origin: asOrigin(row["origin"]),
		consumer: asText(row["consumer"]),
		message: asMessage(row),
		attempts: Number(row["attempts"]),
		reason: asText(row["reason"]),
		error: asKnownError(row["error"]),
		errorHash: asText(row["error_hash"]),
		failedAt: asDate(row["failed_at"]),
		held: !isNull(row["held_seq"]),
		replacedBy: orNull(asText, row["replaced_by"])
	};
}
/** Failed rows that look alike. */
function asGroup(row) {
	return {
		origin: asOrigin(row["origin"]),
		consumer: asText(row["consumer"]),
		type: asText(row["type"]),
		reason: asText(row["reason"]),
		errorHash: asText(row["error_hash"]),
		count: Number(row["count"]),
		firstAt: asDate(row["first_at"]),
		lastAt: asDate(row["last_at"]),
		error: asKnownError(row["error"]),
		seq: asSeq(row["seq"])
	};
}
function asLocked(row) {
	return {
		origin: asOrigin(row["origin"]),
		consumer: asText(row["consumer"]),
		held: orNull(asSeq, row["held_seq"])
	};
}
/** A key that waits. */
function asHeldKey(row) {
	return {
		origin: asOrigin(row["origin"]),
		scope: asText(row["scope"]),
		key: asText(row["key"]),
		id: asText(row["id"]),
		failedSeq: orNull(asSeq, row["failed_seq"]),
		heldAt: asDate(row["held_at"]),
		waiting: Number(row["waiting"])
	};
}
/** A row of `sent`. */
function asSent(row) {
	return {
		seq: asSeq(row["seq"]),
		relay: asText(row["relay"]),
		message: asMessage(row),
		sentAt: asDate(row["sent_at"])
	};
}
/** A row of `subscriptions`. */
function asSubscription(row) {
	return {
		consumer: asText(row["consumer"]),
		type: asText(row["type"]),
		ordered: asBoolean(row["ordered"])
	};
}
/** How much there is. */
function asStatus(consumers, relayRows, workers) {
	const relays = relayRows.map(asRelayStatus);
	const oldest = relays.flatMap(({ oldestAt }) => oldestAt === null ? [] : [oldestAt.getTime()]);
	return {
		consumers: consumers.map(asConsumerStatus),
		relays,
		outbox: relays.reduce((sum, { waiting, held }) => sum + waiting + held, 0),
		oldestOutboxAt: oldest.length === 0 ? null : new Date(Math.min(...oldest)),
		workers
	};
}
function asConsumerStatus(row) {
	return {
		consumer: asText(row["consumer"]),
		receipts: Number(row["receipts"]),
		waiting: Number(row["waiting"]),
		retrying: Number(row["retrying"]),
		held: Number(row["held"]),
		failed: Number(row["failed"])
	};
}
function asRelayStatus(row) {
	return {
		relay: asText(row["relay"]),
		waiting: Number(row["waiting"]),
		held: Number(row["held"]),
		failed: Number(row["failed"]),
		oldestAt: orNull(asDate, row["oldest"]),
		destination: orNull(asText, row["destination"])
	};
}
/** A row of the dialect's `trace` statements. */
function asTrace(row) {
	const common = {
		source: orEmpty(row["source"]),
		type: orEmpty(row["type"]),
		at: asDate(row["at"])
	};
	const scope = orEmpty(row["scope"]);
	const attempts = Number(row["attempts"]);
	const waits = {
		attempts,
		key: orNull(asText, row["key"]),
		heldAt: orNull(asDate, row["held_at"])
	};
	const place = asText(row["place"]);
	switch (place) {
		case "receipt": return {
			where: place,
			consumer: scope,
			...common
		};
		case "inbox": return {
			where: place,
			consumer: scope,
			...common,
			...waits,
			dueAt: asDate(row["due_at"]),
			error: asError(row["error"])
		};
		case "outbox": return {
			where: place,
			relay: scope,
			...common,
			...waits,
			error: asError(row["error"])
		};
		case "sent": return {
			where: place,
			relay: scope,
			...common
		};
		case "audit": return {
			where: place,
			consumer: scope,
			...common,
			action: asText(row["action"]),
			actor: asText(row["actor"]),
			note: orNull(asText, row["note"])
		};
		case "failed": return {
			where: place,
			origin: asOrigin(row["origin"]),
			consumer: scope,
			...common,
			seq: asSeq(row["seq"]),
			attempts,
			reason: asText(row["reason"]),
			held: !isNull(row["held_seq"]),
			replacedBy: orNull(asText, row["replaced_by"]),
			error: asKnownError(row["error"])
		};
	}
}
function asSeq(value) {
	return String(value);
}
function asOrigin(value) {
	return asText(value) === "outbox" ? "outbox" : "inbox";
}
function asKnownError(value) {
	return asError(value) ?? {
		name: "Error",
		message: ""
	};
}
function isNull(value) {
	return value === null || value === void 0;
}
function orNull(as, value) {
	return isNull(value) ? null : as(value);
}
function orEmpty(value) {
	return isNull(value) ? "" : asText(value);
}
// src/core/sql/operator.ts
/** How often a change is tried when others are in its way, or the link breaks. */
const MAX_RUNS = 5;
/**
* What people do by hand, and what they look at. Every change is one short transaction: it locks the row that it is about,
* so of two people one finds nothing, and writes what it did to the audit.
*
* When the link breaks during the commit, nobody knows whether it happened. The change is then made again: if its row is
* still there, it had not happened, and happens now. If the row is gone, it did happen, by this call or by somebody else's
* in between: that cannot be told, and is reported as `commit-unknown`. (An edit can be told by the id it left behind.)
*/
var SqlOperator = class {
	#dialect;
	#sql;
	#tools;
	constructor(dialect, tools) {
		this.#dialect = dialect;
		this.#sql = dialect.operator;
		this.#tools = tools;
	}
	async subscriptions() {
		return (await this.#rows(this.#sql.subscriptions)).map(asSubscription);
	}
	unsubscribe(consumer, audit) {
		return this.#change(this.#sql.lockSubscriptions(consumer), () => [this.#sql.unsubscribe(consumer), this.#sql.auditOther(audit, { consumer })]);
	}
	/** Made again, it says the same; only the audit has it twice. */
	async moveRelay(name, destination, audit) {
		const about = {
			origin: "outbox",
			consumer: name
		};
		await this.#tools.short(this.#sql.moveRelay(name, destination), () => [this.#sql.auditOther(audit, about)]);
	}
	async failedList(filter) {
		return (await this.#rows(this.#sql.failedList(filter))).map(asFailed);
	}
	async failedCount(where) {
		return this.#count(this.#sql.failedCount(where));
	}
	async failedGroups(where, limit) {
		return (await this.#rows(this.#sql.failedGroups(where, limit))).map(asGroup);
	}
	async failedSeqs(where, after, limit) {
		return (await this.#rows(this.#sql.failedSeqs(where, after, limit))).map((row) => asSeq(row["seq"]));
	}
	async failedGet(seq) {
		const [row] = await this.#rows(this.#sql.failedGet(seq));
		return row && asFailed(row);
	}
	failedRetry(seq, audit) {
		const sql = this.#sql;
		return this.#change(sql.failedLock(seq, false), (row) => {
			const { origin, held } = asLocked(row);
			return [
				held === null ? sql.copyBack(seq, origin) : sql.unhold(origin, held),
				sql.auditFailed(seq, audit),
				sql.deleteFailed(seq)
			];
		});
	}
	async failedEdit(seq, message, audit) {
		const failed = await this.failedGet(seq);
		if (failed === void 0) return false;
		if (failed.origin === "inbox") await this.#assertNew(failed.consumer, message);
		return this.#change(this.#sql.failedLock(seq, false), (row) => this.#edit(seq, message, audit, row), async () => (await this.failedGet(seq))?.replacedBy === message.id);
	}
	#edit(seq, message, audit, row) {
		const sql = this.#sql;
		const { origin, consumer, held } = asLocked(row);
		const place = held === null ? sql.copyEdited(seq, origin, message) : sql.replaceHeld(origin, held, message);
		return [
			...origin === "inbox" ? [sql.insertReceipt(consumer, this.#tools.random.token(), message)] : [],
			place,
			sql.auditFailed(seq, audit),
			sql.failedReplaced(seq, message.id)
		];
	}
	/** The receipt's key decides at last; this is for a clear word in time. */
	async #assertNew(consumer, { messageKey, id }) {
		if ((await this.#rows(this.#dialect.receipts(consumer, [messageKey]))).length === 0) return;
		throw new HapaxError("conflict", `expected a new id, but ${consumer} has taken a message with the id ${id}`, { fields: {
			consumer,
			id
		} });
	}
	failedDiscard(seq, audit) {
		const sql = this.#sql;
		return this.#change(sql.failedLock(seq, true), (row) => {
			const { origin, held } = asLocked(row);
			return [
				...held === null ? [] : [sql.deleteHeld(origin, held)],
				sql.auditFailed(seq, audit),
				sql.deleteFailed(seq)
			];
		});
	}
	async heldKeys(limit) {
		return (await this.#rows(this.#sql.heldKeys(limit))).map(asHeldKey);
	}
	releaseKey(origin, scope, key, audit) {
		const sql = this.#sql;
		return this.#change(sql.lockHeld(origin, scope, key), (row) => {
			const seq = asSeq(row["seq"]);
			const [source, id, type] = [
				asText(row["source"]),
				asText(row["id"]),
				asText(row["type"])
			];
			return [
				...row["failed_seq"] == null ? [sql.heldToFailed(origin, seq)] : [],
				sql.failedLetGo(origin, seq),
				sql.deleteHeld(origin, seq),
				sql.auditOther(audit, {
					origin,
					consumer: scope,
					source,
					id,
					type
				})
			];
		});
	}
	async sentList(filter) {
		return (await this.#rows(this.#sql.sentList(filter))).map(asSent);
	}
	async sentSeqs(where, after, limit) {
		return (await this.#rows(this.#sql.sentSeqs(where, after, limit))).map((row) => asSeq(row["seq"]));
	}
	/** Made again, it is published once more under the same id, as any message of the outbox may be. */
	sentRepublish(seq, audit) {
		return this.#change(this.#sql.sentGet(seq), (row) => {
			const message = asMessage(row);
			const { source, id, type } = message;
			return [this.#sql.republish(seq, laneOf(message, true)), this.#sql.auditOther(audit, {
				origin: "outbox",
				consumer: asText(row["relay"]),
				source,
				id,
				type
			})];
		});
	}
	cleanup(step, olderThanMs, limit) {
		return this.#sql.cleanup((statement) => this.#tools.run(statement), step, olderThanMs, limit);
	}
	cleanable(consumer, olderThanMs) {
		return this.#count(this.#sql.cleanable(consumer, olderThanMs));
	}
	async audit(audit, about) {
		await this.#tools.run(this.#sql.auditOther(audit, about));
	}
	checkup() {
		return this.#sql.checkup((statement) => this.#tools.run(statement));
	}
	async status(workers) {
		return asStatus(await this.#rows(this.#sql.statusConsumers), await this.#rows(this.#sql.statusRelays), workers);
	}
	async trace(id, source) {
		const traces = [];
		for (const statement of this.#sql.trace(id)) traces.push(...(await this.#rows(statement)).map(asTrace));
		return traces.filter((trace) => source === void 0 || trace.source === source).sort((a, b) => a.at.getTime() - b.at.getTime());
	}
	async #rows(statement) {
		return (await this.#tools.run(statement)).rows;
	}
	async #count(statement) {
		return Number((await this.#rows(statement))[0]?.["count"] ?? 0);
	}
	/** One change of the row that `first` finds; false: it finds none. `mine` tells whether a lost commit was ours. */
	async #change(first, then, mine = () => Promise.resolve(false)) {
		let unknown;
		for (let run = 1;; run++) {
			let sent = false;
			const follow = ({ rows: [row] }) => {
				sent = row !== void 0;
				return row && then(row);
			};
			try {
				const { rows } = await this.#tools.short(first, follow);
				if (rows.length > 0) return true;
				if (unknown === void 0) return false;
				if (await mine()) return true;
				throw commitUnknown$1(unknown);
			} catch (error) {
				if (sent && isLost(error)) unknown = error;
				if (!(error === unknown || isHapaxError(error, "transaction-conflict")) || run === MAX_RUNS) throw unknown === void 0 ? error : commitUnknown$1(unknown);
			}
		}
	}
};
/** Whether the link was lost: if that was after the last statements were sent, they may have been committed. */
function isLost(error) {
	return [
		"commit-unknown",
		"store-unavailable",
		"transaction-lost"
	].some((code) => isHapaxError(error, code));
}
function commitUnknown$1(cause) {
	return new HapaxError("commit-unknown", "the connection was lost while committing, and it could not be learnt whether this call made the change: look at the message before it is made again", { cause });
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
		ordered: asBoolean(row["ordered"]),
		attempts: Number(row["attempts"]),
		lost: Number(row["lost"]),
		starts: Number(row["starts"]),
		crashes: Number(row["crashes"])
	};
}
/** A row of the outbox. */
function asOutboxMessage(row) {
	return {
		seq: String(row["seq"]),
		relay: asText(row["relay"]),
		message: asMessage(row),
		attempts: Number(row["attempts"])
	};
}
/** A row of `workers`. */
function asWorker(row) {
	return {
		id: asText(row["id"]),
		name: asText(row["name"]),
		serves: asText(row["serves"]),
		startedAt: asDate(row["started_at"]),
		silentMs: Math.max(0, Number(row["silent_ms"])),
		alive: asBoolean(row["alive"]),
		inHand: JSON.parse(asText(row["in_hand"])).length
	};
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
	/** The error of a handler that was cut off, with what is known of its transaction: it may have ended it itself. */
	ofFate(error, fate) {
		if (fate === "committed") return brokenAtomicity$1(error);
		if (fate !== "aborted" || !isHapaxError(error, "handler-timeout")) return error;
		return new HapaxError(error.code, error.message, {
			cause: error.cause,
			fields: {
				...error.fields,
				undone: true
			}
		});
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
	#operator;
	#ready = false;
	constructor(connection, dialect, random = systemRandom) {
		this.#connection = connection;
		this.#dialect = dialect;
		this.#random = random;
		this.#errors = new StoreErrors(dialect);
		const run = (statement) => this.#run(statement);
		this.#operator = new SqlOperator(dialect, {
			run,
			short: (first, then) => this.#short(first, then),
			random
		});
		const { roundTrips, lateUse, unawaited, pool } = connection.features;
		const { isolationLevels, parallelWriters, ownTransactions } = dialect;
		this.features = Object.freeze({
			name: connection.features.name,
			isolationLevels,
			parallelWriters,
			ownTransactions,
			durable: true,
			pool,
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
		const work = migration(this.#dialect, (tx) => this.#connection.executor(tx));
		const applied = await untilFree(() => this.#admin(work), this.#random);
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
					const unit = await this.#unit(tx, executor, opening, own, isolation);
					phase = "body";
					const result = await this.#guarded(executor, signal, () => body(unit));
					phase = "committing";
					return this.#end(result);
				}
			});
		} catch (error) {
			const fate = await ending;
			const thrown = this.#errors.ofTransaction(error, endedIn ?? phase, signal);
			throw endedIn === "body" ? this.#errors.ofFate(thrown, fate) : thrown;
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
		const own = opening.kind === "take" ? dialect.take(opening.consumer, opening.token, opening.messages, options.lockTimeoutMs) : opening.kind === "claim" ? this.#claim(options, opening) : [];
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
	/** Waiting comes first, as a statement of its own: the claim's snapshot has to be younger than what was waited for. */
	#claim({ lockTimeoutMs, isolation }, { seqs, locked }) {
		const claim = this.#dialect.claim(seqs, isolation);
		return locked === "skip" ? [claim] : [this.#dialect.lockAll(seqs, lockTimeoutMs, isolation), claim];
	}
	async #unit(tx, executor, opening, answers, isolation) {
		const check = () => this.#check(executor);
		const unit = {
			tx,
			check,
			existing: NO_RECEIPTS,
			present: NO_SEQS,
			claimed: NO_ROWS$1
		};
		if (opening.kind === "take") return {
			...unit,
			existing: await this.#existing(executor, opening, answers)
		};
		if (opening.kind !== "claim") return unit;
		const locked = opening.locked === "wait" ? answers[0]?.rows : void 0;
		const present = locked === void 0 ? NO_SEQS : new Set(locked.map((row) => String(row["seq"])));
		return {
			...unit,
			present,
			claimed: await this.#claimed(executor, answers.at(-1), isolation)
		};
	}
	/** The rows go first, not last: whoever commits behind our back commits that they are gone, and nobody runs them again. */
	async #claimed(executor, answer, isolation) {
		const rows = answer?.rows.map(asInboxRow) ?? [];
		if (rows.length === 0) return NO_ROWS$1;
		const claimed = this.#dialect.claimDeletes ? rows : await this.#inOrder(executor, rows, isolation);
		return new Map(claimed.sort((a, b) => compareSeq(a.seq, b.seq)).map((row) => [row.seq, row]));
	}
	/** What `claimDeletes` stands for, where the database cannot do it in one statement. */
	async #inOrder(executor, rows, isolation) {
		let kept = rows;
		if (rows.some((row) => row.ordered)) {
			const statement = this.#dialect.blocked(rows.map((row) => row.seq));
			const answer = await (isolation === "serializable" ? this.#run(statement) : executor.query(statement.text, statement.params));
			const blocked = new Set(answer.rows.map((row) => String(row["seq"])));
			kept = rows.filter((row) => !blocked.has(row.seq));
		}
		if (kept.length === 0) return kept;
		for (const { text, params } of this.#dialect.deleteInbox(kept.map((row) => row.seq))) await executor.query(text, params);
		return kept;
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
			return await within(systemClock, TERMINATE_MS, this.#ended(backend), () => void 0);
		} catch {
			return;
		}
	}
	async #ended(backend) {
		await this.#run(this.#dialect.terminate(backend));
		const statement = this.#dialect.fate(backend);
		if (statement === void 0) return void 0;
		for (;;) {
			const fate = (await this.#run(statement)).rows[0]?.["fate"];
			if (fate === "committed" || fate === "aborted") return fate;
			if (fate !== "in progress") return void 0;
			await pause(systemClock, FATE_MS);
		}
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
	async look(shares) {
		if (!shares.some((share) => share.lanes.length > 0)) return shares.map(() => NOTHING_THERE);
		return asLooks(shares, (await this.#dialect.look((statement) => this.#run(statement, CONTROL_MS), shares)).rows);
	}
	async reschedule(row) {
		return (await this.#run(this.#dialect.reschedule(row))).affected > 0;
	}
	fail(row) {
		const dialect = this.#dialect;
		const then = row.hold ? [dialect.holdInbox(row)] : dialect.deleteInbox([row.seq]);
		return this.#move(dialect.lockInbox(row.seq), [dialect.copyToFailed(row), ...then]);
	}
	async inboxSeq(consumer, messageKey) {
		const { rows } = await this.#run(this.#dialect.inboxSeq(consumer, messageKey));
		return rows[0] && String(rows[0]["seq"]);
	}
	async outboxRows(seqs) {
		return (await this.#run(this.#dialect.outboxRows(seqs))).rows.map(asOutboxMessage);
	}
	async confirm(seqs, keep) {
		const dialect = this.#dialect;
		if (keep) await this.#short(dialect.copyToSent(seqs), () => [dialect.deleteOutbox(seqs)]);
		else await this.#run(dialect.deleteOutbox(seqs));
	}
	async postpone(rows) {
		for (const statement of this.#dialect.postpone(rows)) await this.#run(statement);
	}
	refuse(row) {
		const dialect = this.#dialect;
		const then = row.hold ? dialect.holdOutbox(row) : dialect.deleteOutbox([row.seq]);
		return this.#move(dialect.lockOutbox(row.seq), [dialect.refuseToFailed(row), then]);
	}
	async recordRelay(name, destination) {
		await this.#run(this.#dialect.recordRelay(name, destination));
		const { rows } = await this.#run(this.#dialect.relay(name));
		return rows[0] === void 0 ? destination : asText(rows[0]["destination"]);
	}
	async join(worker) {
		await this.#run(this.#dialect.join(worker));
	}
	async note(id, inHand, alone) {
		return (await this.#run(this.#dialect.note(id, JSON.stringify(inHand), alone, false), CONTROL_MS)).affected > 0;
	}
	async beat(id, inHand, alone) {
		const { affected } = await this.#run(this.#dialect.note(id, JSON.stringify(inHand), alone, true), CONTROL_MS);
		return affected > 0 ? this.#workers() : void 0;
	}
	async #workers() {
		return (await this.#run(this.#dialect.workers, CONTROL_MS)).rows.map(asWorker);
	}
	async bury() {
		const { rows } = await this.#short(this.#dialect.lockDead, ({ rows: dead }) => this.#burial(dead));
		return rows.length;
	}
	#burial(dead) {
		if (dead.length === 0) return void 0;
		const inHand = (alone) => dead.filter((row) => asBoolean(row["alone"]) === alone).flatMap((row) => JSON.parse(asText(row["in_hand"])));
		const [among, alone] = [inHand(false), inHand(true)];
		return [
			...among.length > 0 ? [this.#dialect.suspect(among)] : [],
			...alone.length > 0 ? [this.#dialect.crashed(alone)] : [],
			this.#dialect.leave(dead.map((row) => asText(row["id"])))
		];
	}
	async leave(id) {
		await this.#run(this.#dialect.leave([id]));
	}
	async subscribe(consumer, types, ordered) {
		for (const type of types) {
			const [row] = (await this.#run(this.#dialect.subscription(consumer, type))).rows;
			if (row !== void 0 && asBoolean(row["ordered"]) === ordered) continue;
			await this.#run(this.#dialect.subscribe(consumer, type, ordered));
		}
	}
	async isSubscribed(consumer, type) {
		return (await this.#run(this.#dialect.subscription(consumer, type))).rows.length > 0;
	}
	subscriptions() {
		return this.#operator.subscriptions();
	}
	unsubscribe(consumer, audit) {
		return this.#operator.unsubscribe(consumer, audit);
	}
	moveRelay(name, destination, audit) {
		return this.#operator.moveRelay(name, destination, audit);
	}
	failedList(filter) {
		return this.#operator.failedList(filter);
	}
	failedCount(where) {
		return this.#operator.failedCount(where);
	}
	failedGroups(where, limit) {
		return this.#operator.failedGroups(where, limit);
	}
	failedSeqs(where, after, limit) {
		return this.#operator.failedSeqs(where, after, limit);
	}
	failedGet(seq) {
		return this.#operator.failedGet(seq);
	}
	failedRetry(seq, audit) {
		return this.#operator.failedRetry(seq, audit);
	}
	failedEdit(seq, message, audit) {
		return this.#operator.failedEdit(seq, message, audit);
	}
	failedDiscard(seq, audit) {
		return this.#operator.failedDiscard(seq, audit);
	}
	heldKeys(limit) {
		return this.#operator.heldKeys(limit);
	}
	releaseKey(origin, scope, key, audit) {
		return this.#operator.releaseKey(origin, scope, key, audit);
	}
	sentList(filter) {
		return this.#operator.sentList(filter);
	}
	sentSeqs(where, after, limit) {
		return this.#operator.sentSeqs(where, after, limit);
	}
	sentRepublish(seq, audit) {
		return this.#operator.sentRepublish(seq, audit);
	}
	cleanup(step, olderThanMs, limit) {
		return this.#operator.cleanup(step, olderThanMs, limit);
	}
	cleanable(consumer, olderThanMs) {
		return this.#operator.cleanable(consumer, olderThanMs);
	}
	audit(audit, about) {
		return this.#operator.audit(audit, about);
	}
	checkup() {
		return this.#operator.checkup();
	}
	async status() {
		return this.#operator.status(await this.#workers());
	}
	trace(id, source) {
		return this.#operator.trace(id, source);
	}
	/** Moves a row between tables if it is still there. */
	async #move(lock, statements) {
		const there = ({ rows }) => rows.length > 0;
		return there(await this.#short(lock, (answer) => there(answer) ? statements : void 0));
	}
	#short(first, then) {
		const settings = this.#dialect.settings(SHORT, "claim");
		return this.#admin({
			first: [...settings, first],
			body: async (_tx, answers) => {
				const answer = answers.at(-1) ?? NO_ANSWER;
				return {
					value: answer,
					last: then(answer)
				};
			}
		});
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
	async #run(statement, limitMs = QUERY_MS) {
		try {
			return await this.#inTime(statement, limitMs);
		} catch (error) {
			if (!(this.#dialect.classify(error) === "lost")) throw this.#errors.ofQuery(error);
		}
		return this.#inTime(statement, limitMs).catch((error) => {
			throw this.#errors.ofQuery(error);
		});
	}
	#inTime({ text, params }, limitMs) {
		return within(systemClock, limitMs + GRACE_MS$1, this.#connection.query(text, params, limitMs), () => {
			throw new HapaxError("store-unavailable", `the database did not answer within ${limitMs} ms`);
		});
	}
};
const NO_RECEIPTS = /* @__PURE__ */ new Map();
const NO_SEQS = /* @__PURE__ */ new Set();
const NO_ROWS$1 = /* @__PURE__ */ new Map();
const NOTHING_THERE = {
	entries: [],
	nextMs: void 0,
	after: /* @__PURE__ */ new Map()
};
/** The limits of a transaction without handlers. */
const SHORT = {
	lockTimeoutMs: 1e4,
	idleTimeoutMs: 1e4
};
const NO_ANSWER = {
	rows: [],
	affected: 0
};
/** How long a statement outside a transaction may take. */
const QUERY_MS = 6e4;
/** The same for heartbeats and looks, which others wait for. */
const CONTROL_MS = 1e4;
const GRACE_MS$1 = 1e3;
/** How long to wait for the end of a transaction that outlived its time. */
const TERMINATE_MS = 5e3;
const FATE_MS = 10;
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
// src/stores/postgres/prepared.ts
/**
* Decides which statements are worth a name: those that come again. Texts that differ each time, with values written into
* them, would fill the memory of every connection for nothing.
*/
var PreparedNames = class {
	#seen = /* @__PURE__ */ new Map();
	#names = /* @__PURE__ */ new Map();
	/** The name of a statement; undefined: send it without one. */
	of(text) {
		const known = this.#names.get(text);
		if (known !== void 0 || this.#names.size >= MOST) return known;
		const times = (this.#seen.get(text) ?? 0) + 1;
		if (times < WORTH_IT) {
			if (this.#seen.size >= MOST) this.#seen.clear();
			this.#seen.set(text, times);
			return;
		}
		this.#seen.delete(text);
		const named = {
			name: `hapax_${hash("sha256", text, "hex").slice(0, 16)}`,
			text
		};
		this.#names.set(text, named);
		return named;
	}
};
const WORTH_IT = 3;
const MOST = 500;
/** The plan does not fit the tables any more, or the server has forgotten it: a new connection has neither trouble. */
function isStalePlan(error) {
	const { code, message } = error ?? {};
	return code === "26000" || code === "0A000" && /cached plan/.test(String(message));
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
	/** The connection has a plan that is of no use any more. */
	stale = false;
	#raw;
	#names;
	#guarded;
	#corking = false;
	constructor(client, names) {
		this.#raw = client;
		this.#names = names;
	}
	query(text, params) {
		if (this.watch.closed) return Promise.reject(transactionClosed());
		this.#corked();
		const named = params === void 0 || params.length === 0 ? void 0 : this.#names?.of(text);
		const answer = named === void 0 ? this.#raw.query(text, params) : this.#query(named, params);
		return this.watch.track(answer);
	}
	/** Where statements are sent ahead, those of one moment go to the server in one piece. */
	#corked() {
		const { pipeline, connection } = this.#raw;
		const stream = pipeline ? connection?.stream : void 0;
		if (stream === void 0 || this.#corking) return;
		this.#corking = true;
		stream.cork();
		process.nextTick(() => {
			this.#corking = false;
			stream.uncork();
		});
	}
	async #query(named, values) {
		try {
			return await this.#raw.query({
				...named,
				values
			});
		} catch (error) {
			if (isStalePlan(error)) this.stale = true;
			throw error;
		}
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
	const kind = isStalePlan(error) ? "conflict" : classify$2(error);
	return kind === "conflict" || kind === "lost" ? kind : void 0;
}
// src/stores/postgres/connection.ts
/** Transactions on a pool of `pg`. BEGIN travels with the first statements, COMMIT with the last ones. */
var PgConnection = class {
	features;
	#pools;
	#names;
	constructor(pools, prepare = false) {
		this.#pools = pools;
		this.#names = prepare ? new PreparedNames() : void 0;
		const { size: pool } = pools;
		this.features = {
			name: "postgres",
			roundTrips: 2,
			lateUse: "refused",
			unawaited: "detected",
			pool
		};
	}
	async transaction(options, work) {
		const client = await guarded(await this.#pools.handlers()).connect();
		options.acquired?.();
		const run = new Run$2(client, this.#names);
		const onError = (error) => run.tx.watch.lose(error);
		client.on("error", onError);
		try {
			return await untilAborted(options.signal, () => run.steps(options, work), () => run.destroy());
		} finally {
			run.tx.watch.close();
			if (!run.broken) client.off("error", onError);
			client.release(run.broken || run.tx.stale);
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
	async query(text, params, limitMs) {
		const client = await guarded(await this.#pools.control()).connect();
		let broken = true;
		const timer = setTimeout(() => destroy$1(client), limitMs);
		try {
			const answer = toResult(await client.query(text, params));
			broken = false;
			return answer;
		} finally {
			clearTimeout(timer);
			client.release(broken);
		}
	}
	close() {
		return this.#pools.close();
	}
};
const pools = /* @__PURE__ */ new WeakSet();
/**
* The pool, whose clients have a listener from the start. One that is ended in the instant in which it connects has no other
* until whoever waits for it goes on, and its error would end the process.
*/
function guarded(pool) {
	if (pools.has(pool)) return pool;
	pools.add(pool);
	const { on } = pool;
	on?.call(pool, "connect", (client) => client.on("error", () => {}));
	return pool;
}
/** One transaction on one client. */
var Run$2 = class {
	/** The client cannot be trusted any more. */
	broken = false;
	tx;
	#client;
	constructor(client, names) {
		this.#client = client;
		this.tx = new PgTransaction(client, names);
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
		destroy$1(this.#client);
	}
};
/** Not end(): that would wait for the statement that is running. */
function destroy$1(client) {
	const { connection } = client;
	connection?.stream?.destroy?.();
}
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
// src/stores/postgres/publish.ts
/**
* The function `publish` for programs in other languages: it writes the row that `hapax.publish` would write. Everything in it
* is computed as in `src/core`: identity.ts, lanes.ts, message.ts and uuid.ts; a test compares them.
*/
function publishFunction(schema) {
	return `create function ${schema}.publish(
  source text,
  type text,
  data text default '',
  key text default null,
  id text default null,
  subject text default null,
  headers text default null,
  correlation_id text default null,
  causation_id text default null,
  traceparent text default null,
  tracestate text default null,
  delay_ms double precision default null,
  relay text default null
) returns text language plpgsql volatile security invoker set search_path = pg_catalog, pg_temp as $publish$
#variable_conflict use_variable
declare
  moment timestamptz := clock_timestamp();
  microseconds bigint := round(extract(epoch from moment) * 1000000);
  payload bytea;
  message_key uuid;
  digest text;
  header record;
  packed_headers text;
  attributes text;
  lane integer;
  bytes bigint;
begin
  if id is null then
    -- A UUIDv7 whose twelve bits after the version count within the millisecond, so that ids rise.
    id := lpad(to_hex(microseconds / 1000), 12, '0') || '7' || lpad(to_hex(microseconds % 1000 * 4096 / 1000), 3, '0')
      || right(gen_random_uuid()::text, 17);
    id := substr(id, 1, 8) || '-' || substr(id, 9, 4) || '-' || substr(id, 13, 4) || '-' || right(id, 17);
  end if;
  relay := coalesce(relay, 'default');
  delay_ms := coalesce(delay_ms, 0);
  if source is null or source = '' or octet_length(convert_to(source, 'UTF8')) > 2048 then
    raise exception 'expected source to be a text of 1 to 2048 bytes' using errcode = '22023';
  elsif type is null or type = '' or octet_length(convert_to(type, 'UTF8')) > 255 then
    raise exception 'expected type to be a text of 1 to 255 bytes' using errcode = '22023';
  elsif id = '' or octet_length(convert_to(id, 'UTF8')) > 2048 then
    raise exception 'expected id to be null or a text of 1 to 2048 bytes' using errcode = '22023';
  elsif key = '' or octet_length(convert_to(key, 'UTF8')) > 2048 then
    raise exception 'expected key to be null or a text of 1 to 2048 bytes' using errcode = '22023';
  elsif relay = '' or octet_length(convert_to(relay, 'UTF8')) > 255 then
    raise exception 'expected relay to be null or a text of 1 to 255 bytes' using errcode = '22023';
  elsif not (delay_ms >= 0 and delay_ms <= 3153600000000) then
    raise exception 'expected delay_ms to be null or a number from 0 to 100 years, got %', delay_ms using errcode = '22023';
  elsif key is not null and delay_ms > 0 then
    raise exception 'expected delay_ms to be absent on a message with a key, because it would hold up what comes after it'
      using errcode = '22023';
  elsif data is null then
    raise exception 'expected data to be the text of a JSON value, or empty, got null' using errcode = '22023';
  end if;

  begin
    if data <> '' then
      perform data::json;
    end if;
  exception when invalid_text_representation then
    raise exception 'expected data to be the text of a JSON value, or empty: %', sqlerrm using errcode = '22023';
  end;

  if headers is not null then
    begin
      if json_typeof(headers::json) <> 'object' then
        raise exception 'expected headers to be a JSON object of texts, got %', json_typeof(headers::json) using errcode = '22023';
      end if;
      packed_headers := '';
      for header in select * from json_each(headers::json) as pair (name, value) loop
        if json_typeof(header.value) <> 'string' then
          raise exception 'expected header % to be a text, got %', header.name, json_typeof(header.value) using errcode = '22023';
        end if;
        packed_headers := packed_headers || case when packed_headers = '' then '' else ',' end
          || to_json(header.name)::text || ':' || to_json(header.value #>> '{}')::text;
      end loop;
    exception when invalid_text_representation or untranslatable_character then
      raise exception 'expected headers to be a JSON object of texts: %', sqlerrm using errcode = '22023';
    end;
  end if;

  attributes := '{'
    || coalesce('"subject":' || to_json(subject)::text || ',', '')
    || '"time":"' || to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') || '"'
    || ',"datacontenttype":"application/json"'
    || coalesce(',"correlationId":' || to_json(correlation_id)::text, '')
    || coalesce(',"causationId":' || to_json(causation_id)::text, '')
    || coalesce(',"traceparent":' || to_json(traceparent)::text, '')
    || coalesce(',"tracestate":' || to_json(tracestate)::text, '')
    || coalesce(',"headers":{' || packed_headers || '}', '')
    || '}';
  payload := convert_to(data, 'UTF8');
  bytes := octet_length(payload) + octet_length(convert_to(attributes, 'UTF8'));
  if bytes > 1048576 then
    raise exception 'expected a message of at most 1048576 bytes, got %', bytes using errcode = '22023';
  end if;

  digest := encode(sha256(convert_to(
    octet_length(convert_to(source, 'UTF8')) || ':' || source || ',' || octet_length(convert_to(id, 'UTF8')) || ':' || id || ',',
    'UTF8')), 'hex');
  message_key := (
    case when id ~* '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$'
      then substr(id, 1, 8) || substr(id, 10, 4) else '000000000000' end
    || '8' || substr(digest, 2, 3)
    || substr('89ab89ab89ab89ab', get_byte(decode('0' || substr(digest, 5, 1), 'hex'), 0) + 1, 1)
    || substr(digest, 6, 15))::uuid;
  lane := case when key is null then get_byte(decode(right(message_key::text, 2), 'hex'), 0)
    else get_byte(sha256(convert_to(key, 'UTF8')), 0) end % 64;

  -- A text that begins with U+0001 means an escaped one in the tables.
  insert into ${schema}.outbox
    (relay, message_key, source, id, type, key, attributes, data, fingerprint, available_at, lane)
  values (relay, message_key,
    case when left(source, 1) = chr(1) then chr(1) || replace(source, '%', '%25') else source end,
    case when left(id, 1) = chr(1) then chr(1) || replace(id, '%', '%25') else id end,
    case when left(type, 1) = chr(1) then chr(1) || replace(type, '%', '%25') else type end,
    case when left(key, 1) = chr(1) then chr(1) || replace(key, '%', '%25') else key end,
    attributes, payload, substr(sha256(payload), 1, 8), clock_timestamp() + delay_ms * interval '1 millisecond', lane);
  return id;
end
$publish$`;
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
	}, {
		version: 2,
		name: "workers, relays and order",
		sql: [
			`select set_config('lock_timeout', (100 * 2 ^ floor(6 * random() ^ 2))::integer::text, true)`,
			`lock table ${schema}.subscriptions, ${schema}.inbox, ${schema}.outbox, ${schema}.failed in access exclusive mode`,
			`alter table ${schema}.inbox
  add column held_at timestamptz,
  add column crashes integer not null default 0,
  add column lane smallint not null default 0,
  add column ordered boolean not null default false,
  alter column key type text collate "C"`,
			`drop index ${schema}.inbox_due`,
			`create index inbox_lane on ${schema}.inbox (consumer, lane, available_at, seq) where not ordered`,
			`create index inbox_key on ${schema}.inbox (consumer, lane, key, seq) where ordered`,
			`alter table ${schema}.outbox
  add column held_at timestamptz,
  add column attempts integer not null default 0,
  add column lane smallint not null default 0,
  add column error text,
  alter column key type text collate "C"`,
			`create index outbox_lane on ${schema}.outbox (relay, lane, available_at, seq) where key is null`,
			`create index outbox_key on ${schema}.outbox (relay, lane, key, seq) where key is not null`,
			`alter table ${schema}.failed
  add column held_seq bigint,
  add column lane smallint not null default 0,
  add column ordered boolean not null default false,
  add column origin text not null default 'inbox',
  add column error_hash text not null default '',
  add column replaced_by text,
  drop constraint hapax_failed_message,
  add constraint hapax_failed_message unique (consumer, message_key, fingerprint, origin)`,
			`create index inbox_held on ${schema}.inbox (held_at) where held_at is not null`,
			`create index outbox_held on ${schema}.outbox (held_at) where held_at is not null`,
			`create index failed_held on ${schema}.failed (held_seq) where held_seq is not null`,
			`alter table ${schema}.subscriptions add column ordered boolean not null default false`,
			`create table ${schema}.workers (
  id text primary key,
  started_at timestamptz not null default clock_timestamp(),
  heartbeat_at timestamptz not null default clock_timestamp(),
  ttl_ms integer not null,
  alone boolean not null default false,
  name text not null,
  serves text not null,
  in_hand text not null default '[]'
)`,
			`create table ${schema}.relays (
  name text primary key,
  destination text not null,
  recorded_at timestamptz not null default clock_timestamp()
)`,
			`create table ${schema}.sent (
  seq bigint generated always as identity primary key,
  sent_at timestamptz not null default clock_timestamp(),
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
			`create table ${schema}.audit (
  seq bigint generated always as identity primary key,
  at timestamptz not null default clock_timestamp(),
  action text not null,
  actor text not null,
  origin text,
  consumer text,
  source text,
  id text,
  type text,
  note text
)`,
			publishFunction(schema)
		]
	}];
}
// src/stores/postgres/checkup.ts
const plain$8 = (text) => ({
	text,
	params: []
});
/** Transactions that are open longer than this keep vacuum from cleaning up. */
const LONG_MINUTES$1 = 5;
/** Dead rows below this are nothing to worry about. */
const MANY_DEAD = 1e5;
/** What `doctor` looks at on PostgreSQL. */
function checks$1(schema) {
	const name = schema.replaceAll("\"", "");
	const tables = expectedTables(migrations$2(schema), (table) => table.split(".").at(-1));
	return [
		{
			check: "server",
			statement: plain$8(`
select current_setting('server_version') as version, current_setting('server_version_num')::integer as number,
  pg_is_in_recovery() as replica, current_setting('transaction_read_only') as read_only`),
			judge: server$1
		},
		{
			check: "settings",
			statement: plain$8(`
select name, setting from pg_settings
where name in ('synchronous_commit', 'fsync', 'full_page_writes', 'autovacuum', 'default_transaction_isolation',
  'idle_in_transaction_session_timeout')`),
			judge: settings
		},
		{
			check: "connections",
			statement: plain$8(`
select count(*) as used, current_setting('max_connections')::integer as most
from pg_stat_activity where backend_type = 'client backend'`),
			judge: ([row]) => connections$1(Number(row?.["used"]), Number(row?.["most"]))
		},
		{
			check: "pooler",
			statement: plain$8(`
select (extract(epoch from clock_timestamp() - backend_start) * 1000)::float8 as ms
from pg_stat_activity where pid = pg_backend_pid()`),
			judge: ([row]) => pooler(Number(row?.["ms"]))
		},
		clockCheck(plain$8(`select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms`)),
		{
			check: "long transactions",
			statement: plain$8(`
select count(*) filter (where long) as count, string_agg(pid::text, ', ') filter (where long) as pids,
  round(extract(epoch from max(clock_timestamp() - xact_start) filter (where long)) / 60) as minutes,
  count(*) filter (where hidden) as hidden
from (
  select pid, xact_start, coalesce(query = '<insufficient privilege>', false) as hidden,
    coalesce(xact_start < clock_timestamp() - interval '${LONG_MINUTES$1} minutes', false)
      and backend_type = 'client backend' as long
  from pg_stat_activity where pid <> pg_backend_pid() and datname is not null
) as sessions`),
			judge: longTransactions$1
		},
		{
			check: "prepared transactions",
			statement: plain$8(`
select count(*) as count, round(extract(epoch from max(clock_timestamp() - prepared)) / 60) as minutes
from pg_prepared_xacts where database = current_database()`),
			judge: prepared$1
		},
		{
			check: "privileges",
			statement: {
				text: `
select relname as name, privilege
from pg_class join pg_namespace on pg_namespace.oid = relnamespace,
  unnest(array['select', 'insert', 'update', 'delete']) with ordinality as wanted (privilege, place)
where nspname = $1::text and relkind = 'r' and relname <> 'migrations'
  and not has_table_privilege(pg_class.oid, privilege)
order by relname, place`,
				params: [name]
			},
			judge: (rows) => privileges(rows.filter((row) => tables.has(asText(row["name"]))))
		},
		{
			check: "vacuum",
			statement: {
				text: `
select relname as name, n_live_tup as live, n_dead_tup as dead, last_autovacuum is null and last_vacuum is null as never
from pg_stat_user_tables where schemaname = $1::text order by n_dead_tup desc`,
				params: [name]
			},
			judge: vacuum
		},
		{
			check: "tables",
			statement: {
				text: `
select relname as name, reltuples::float8 as rows, pg_total_relation_size(pg_class.oid)::float8 as bytes
from pg_class join pg_namespace on pg_namespace.oid = relnamespace
where nspname = $1::text and relkind = 'r' order by 3 desc`,
				params: [name]
			},
			judge: (rows) => ok$2(rows.map(tableSize$1).join(", "))
		},
		{
			check: "schema drift",
			statement: {
				text: `
select relname as name, attname as part from pg_attribute
  join pg_class on pg_class.oid = attrelid join pg_namespace on pg_namespace.oid = relnamespace
where nspname = $1::text and relkind = 'r' and attnum > 0 and not attisdropped
union all
select relname, indexname from pg_indexes join pg_class on relname = tablename
  join pg_namespace on pg_namespace.oid = relnamespace and nspname = schemaname
where schemaname = $2::text`,
				params: [name, name]
			},
			judge: (rows) => schemaVerdict(tables, new Set(rows.map((row) => `${asText(row["name"])}.${asText(row["part"])}`)))
		}
	];
}
function server$1([row]) {
	const version = asText(row?.["version"]);
	const verdicts = Number(row?.["number"]) >= 13e4 ? [ok$2(`PostgreSQL ${version}`)] : [error(`PostgreSQL ${version}`, "Use PostgreSQL 13 or newer.")];
	if (row?.["replica"] === true) verdicts.push(error("this is a replica: nothing can be written", "Connect to the primary."));
	else if (asText(row?.["read_only"]) === "on") verdicts.push(error("transactions are read-only", "Set default_transaction_read_only to off for the user of hapax."));
	return verdicts;
}
function settings(rows) {
	const found = new Map(rows.map((row) => [asText(row["name"]), asText(row["setting"])]));
	const verdicts = [];
	const unless = (name, fine, otherwise) => {
		if (found.has(name)) verdicts.push(fine ? ok$2(`${name} is ${found.get(name)}`) : otherwise);
	};
	unless("synchronous_commit", found.get("synchronous_commit") !== "off", error("synchronous_commit is off: what was acknowledged may be lost in a crash of the server", "Set it to on for the user of hapax (alter role … set synchronous_commit = on)."));
	unless("fsync", found.get("fsync") === "on", error("fsync is off: a crash may destroy the database", "Set fsync = on in postgresql.conf."));
	unless("full_page_writes", found.get("full_page_writes") === "on", warning("full_page_writes is off: a crash may destroy pages, unless the file system cannot tear them", "Set full_page_writes = on in postgresql.conf."));
	unless("autovacuum", found.get("autovacuum") === "on", error("autovacuum is off: inbox and outbox grow with every message", "Set autovacuum = on in postgresql.conf."));
	const isolation = found.get("default_transaction_isolation");
	unless("default_transaction_isolation", isolation !== "read uncommitted", warning(`default_transaction_isolation is ${isolation}`, "PostgreSQL treats it as read committed; say so."));
	unless("idle_in_transaction_session_timeout", found.get("idle_in_transaction_session_timeout") !== "0", ok$2("idle_in_transaction_session_timeout is not set; transactions of hapax set it for themselves"));
	return verdicts;
}
function connections$1(used, most) {
	const message = `${used} of ${most} connections are in use`;
	if (used <= .8 * most) return ok$2(message);
	return warning(message, "Make the pools smaller, put PgBouncer before the server, or raise max_connections.");
}
/** A connection that is older than this process was opened by somebody between. That there is nobody cannot be told. */
function pooler(connectedMs) {
	return connectedMs > performance.now() + 2e3 ? ok$2("a pooler such as PgBouncer is between: in session and in transaction mode all promises hold, in statement mode nothing works") : ok$2("no pooler can be seen");
}
function longTransactions$1([row]) {
	const count = Number(row?.["count"]);
	const hidden = Number(row?.["hidden"]);
	const seen = hidden === 0 ? "" : ` among those that this user may see (pg_read_all_stats shows ${hidden} more sessions)`;
	if (count === 0) return ok$2(`no transaction is open for more than ${LONG_MINUTES$1} minutes${seen}`);
	return warning(`${count} transactions are open for more than ${LONG_MINUTES$1} minutes, one for ${Number(row?.["minutes"])} (pid ${asText(row?.["pids"])})`, "While they are open, vacuum cannot remove the rows of finished messages. Find out who left them open, or end them with pg_terminate_backend(pid).");
}
function privileges(rows) {
	if (rows.length === 0) return ok$2("this user may read and write every table");
	return warning(`this user may not ${[...Map.groupBy(rows, (row) => asText(row["name"]))].map(([table, of]) => `${of.map((row) => asText(row["privilege"])).join(", ")} on ${table}`).join("; ")}`, "That is fine for somebody who only looks. Workers, relays and changes by hand need all of it: grant it to their user.");
}
function prepared$1([row]) {
	const count = Number(row?.["count"]);
	if (count === 0) return ok$2("there is none");
	return warning(`${count} prepared transactions wait for their end, one for ${Number(row?.["minutes"])} minutes`, "They hold locks and keep vacuum from cleaning up. End them: commit prepared or rollback prepared (select * from pg_prepared_xacts).");
}
function vacuum(rows) {
	const late = rows.filter((row) => Number(row["dead"]) > MANY_DEAD && Number(row["dead"]) > Number(row["live"]));
	if (late.length === 0) return [ok$2("keeps up with the dead rows")];
	return late.map((row) => warning(`${asText(row["name"])} has ${Number(row["dead"])} dead rows beside ${Number(row["live"])} live ones${row["never"] === true ? " and was never vacuumed" : ""}`, `Look for long transactions; then run vacuum (analyze) on the table, and lower its autovacuum_vacuum_scale_factor.`));
}
function tableSize$1(row) {
	const rows = Number(row["rows"]);
	const about = rows < 0 ? "not counted yet" : `about ${rows} rows`;
	return `${asText(row["name"])} ${size(Number(row["bytes"]))} (${about})`;
}
// src/stores/postgres/operator.ts
const NO_PARAMS$6 = [];
const plain$7 = (text) => ({
	text,
	params: NO_PARAMS$6
});
/** The statements of the tools that people use, on PostgreSQL in one schema. */
function operator$2(schema) {
	const sql = statements$5(schema);
	return {
		failedList: ({ before, limit, ...where }) => ({
			text: sql.failedList,
			params: [
				...failedParams$2(where),
				before ?? null,
				limit
			]
		}),
		failedCount: (where) => ({
			text: sql.failedCount,
			params: failedParams$2(where)
		}),
		failedGroups: (where, limit) => ({
			text: sql.failedGroups,
			params: [...failedParams$2(where), limit]
		}),
		failedSeqs: (where, after, limit) => ({
			text: sql.failedSeqs,
			params: [
				...failedParams$2(where),
				after ?? null,
				limit
			]
		}),
		failedGet: (seq) => ({
			text: sql.failedGet,
			params: [seq]
		}),
		failedLock: (seq, replaced) => ({
			text: sql.failedLock,
			params: [seq, String(replaced)]
		}),
		copyBack: (seq, origin) => ({
			text: sql.copyBack[origin],
			params: [seq]
		}),
		copyEdited: (seq, origin, message) => ({
			text: sql.copyEdited[origin],
			params: [...columns$4(message), seq]
		}),
		unhold: (origin, seq) => ({
			text: sql.unhold[origin],
			params: [seq]
		}),
		replaceHeld: (origin, seq, message) => ({
			text: sql.replaceHeld[origin],
			params: [...columns$4(message), seq]
		}),
		deleteHeld: (origin, seq) => ({
			text: sql.deleteHeld[origin],
			params: [seq]
		}),
		deleteFailed: (seq) => ({
			text: sql.deleteFailed,
			params: [seq]
		}),
		failedReplaced: (seq, id) => ({
			text: sql.failedReplaced,
			params: [encodeText(id), seq]
		}),
		insertReceipt: (consumer, token, { messageKey, source, id, type, fingerprint }) => ({
			text: sql.insertReceipt,
			params: [
				consumer,
				messageKey,
				token,
				encodeText(source),
				encodeText(id),
				encodeText(type),
				fingerprint
			]
		}),
		auditFailed: (seq, { action, actor, note }) => ({
			text: sql.auditFailed,
			params: [
				action,
				encodeText(actor),
				encoded$1(note),
				seq
			]
		}),
		auditOther: ({ action, actor, note }, { origin, consumer, source, id, type }) => ({
			text: sql.auditOther,
			params: [
				action,
				encodeText(actor),
				encoded$1(note),
				origin ?? null,
				consumer ?? null,
				encoded$1(source),
				encoded$1(id),
				encoded$1(type)
			]
		}),
		heldKeys: (limit) => ({
			text: sql.heldKeys,
			params: [limit]
		}),
		lockHeld: (origin, scope, key) => ({
			text: sql.lockHeld[origin],
			params: [scope, encodeText(key)]
		}),
		heldToFailed: (origin, seq) => ({
			text: sql.heldToFailed[origin],
			params: [seq]
		}),
		failedLetGo: (origin, heldSeq) => ({
			text: sql.failedLetGo,
			params: [origin, heldSeq]
		}),
		moveRelay: (name, destination) => ({
			text: sql.moveRelay,
			params: [name, encodeText(destination)]
		}),
		subscriptions: plain$7(sql.subscriptions),
		lockSubscriptions: (consumer) => ({
			text: sql.lockSubscriptions,
			params: [consumer]
		}),
		unsubscribe: (consumer) => ({
			text: sql.unsubscribe,
			params: [consumer]
		}),
		sentList: ({ before, limit, ...where }) => ({
			text: sql.sentList,
			params: [
				...sentParams$2(where),
				before ?? null,
				limit
			]
		}),
		sentSeqs: (where, after, limit) => ({
			text: sql.sentSeqs,
			params: [
				...sentParams$2(where),
				after ?? null,
				limit
			]
		}),
		sentGet: (seq) => ({
			text: sql.sentGet,
			params: [seq]
		}),
		republish: (seq, lane) => ({
			text: sql.republish,
			params: [lane, seq]
		}),
		cleanup: async (query, step, olderThanMs, limit) => {
			const { rows } = await query(step.kind === "receipts" ? {
				text: sql.cleanReceipts,
				params: [
					step.consumer,
					step.after ?? null,
					olderThanMs,
					limit
				]
			} : step.kind === "sent" ? {
				text: sql.cleanSent,
				params: [
					step.relay,
					olderThanMs,
					limit
				]
			} : {
				text: sql.cleanAudit,
				params: [olderThanMs, limit]
			});
			return {
				deleted: Number(rows[0]?.["deleted"] ?? 0),
				after: rows[0]?.["after"] == null ? void 0 : String(rows[0]["after"])
			};
		},
		cleanable: (consumer, olderThanMs) => ({
			text: sql.cleanable,
			params: [consumer, olderThanMs]
		}),
		checkup: (query) => lookAt$1(query, checks$1(schema)),
		statusConsumers: plain$7(sql.statusConsumers),
		statusRelays: plain$7(sql.statusRelays),
		trace: (id) => sql.trace.map((text) => ({
			text,
			params: [encodeText(id)]
		}))
	};
}
function encoded$1(text) {
	return text === void 0 ? null : encodeText(text);
}
/** message_key, source, id, type, key, attributes, data, fingerprint: eight parameters. */
function columns$4(message) {
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
/** The parameters of `FAILED_WHERE`. */
function failedParams$2(where) {
	const { origin, consumer, type, reason, errorHash, olderThanMs, newerThanMs, replaced = false } = where;
	return [
		...[
			origin ?? null,
			consumer ?? null,
			encoded$1(type),
			reason ?? null,
			errorHash ?? null
		],
		olderThanMs ?? null,
		newerThanMs ?? null,
		String(replaced)
	];
}
/** The parameters of `SENT_WHERE`. */
function sentParams$2({ relay, type, olderThanMs, newerThanMs }) {
	return [
		relay ?? null,
		encoded$1(type),
		olderThanMs ?? null,
		newerThanMs ?? null
	];
}
const MS$3 = (column) => `(extract(epoch from ${column}) * 1000)::float8`;
const AGO$1 = (ms) => `clock_timestamp() - ${ms} * interval '1 millisecond'`;
const MESSAGE$5 = `m.message_key::text as message_key, m.source, m.id, m.type, m.key, m.attributes, m.data, encode(m.fingerprint, 'hex') as fingerprint`;
const COLUMNS$3 = "message_key, source, id, type, key, attributes, data, fingerprint";
/** A message as eight parameters. */
const VALUES$1 = `$1::uuid, $2::text, $3::text, $4::text, $5::text, $6::text, $7::bytea, decode($8::text, 'hex')`;
const FAILED$2 = `m.seq::text as seq, m.origin, m.consumer, ${MESSAGE$5}, m.attempts, m.reason, m.error, m.error_hash,
  ${MS$3("m.failed_at")} as failed_at, m.held_seq::text as held_seq, m.replaced_by`;
const FAILED_WHERE$2 = `(values ($1::text, $2::text, $3::text, $4::text, $5::text, $6::float8, $7::float8, $8::boolean))
  as f (origin, consumer, type, reason, error_hash, older, newer, replaced)
where (f.origin is null or m.origin = f.origin) and (f.consumer is null or m.consumer = f.consumer)
  and (f.type is null or m.type = f.type) and (f.reason is null or m.reason = f.reason)
  and (f.error_hash is null or m.error_hash = f.error_hash)
  and (f.older is null or m.failed_at < ${AGO$1("f.older")}) and (f.newer is null or m.failed_at >= ${AGO$1("f.newer")})
  and (m.replaced_by is not null) = f.replaced`;
const SENT_WHERE$2 = `(values ($1::text, $2::text, $3::float8, $4::float8)) as f (relay, type, older, newer)
where (f.relay is null or m.relay = f.relay) and (f.type is null or m.type = f.type)
  and (f.older is null or m.sent_at < ${AGO$1("f.older")}) and (f.newer is null or m.sent_at >= ${AGO$1("f.newer")})`;
/** A receipt stays while the inbox or the failed store has its message. */
const UNFINISHED = (schema) => `
    exists (select from ${schema}.inbox i where i.message_key = r.message_key and i.consumer = r.consumer)
    or exists (select from ${schema}.failed f
      where f.consumer = r.consumer and f.message_key = r.message_key and f.origin = 'inbox')`;
/** Every statement, whole and by name. Parameters are scalars, each used once and in order, each cast. */
function statements$5(schema) {
	const both = (text) => ({
		inbox: text("inbox"),
		outbox: text("outbox")
	});
	const counts = {
		inbox: "attempts = 0, lost = 0, starts = 0, crashes = 0",
		outbox: "attempts = 0"
	};
	return {
		failedList: `
select ${FAILED$2} from ${schema}.failed m, ${FAILED_WHERE$2}
  and m.seq < coalesce($9::bigint, 9223372036854775807)
order by m.seq desc limit $10::integer`,
		failedCount: `select count(*) as count from ${schema}.failed m, ${FAILED_WHERE$2}`,
		failedGroups: `
select g.origin, g.consumer, g.type, g.reason, g.error_hash, g.count, g.first_at, g.last_at, g.seq::text as seq, newest.error
from (
  select m.origin, m.consumer, m.type, m.reason, m.error_hash, count(*) as count,
    ${MS$3("min(m.failed_at)")} as first_at, ${MS$3("max(m.failed_at)")} as last_at, max(m.seq) as seq
  from ${schema}.failed m, ${FAILED_WHERE$2}
  group by m.origin, m.consumer, m.type, m.reason, m.error_hash
  order by count(*) desc, max(m.seq) desc limit $9::integer
) as g join ${schema}.failed newest on newest.seq = g.seq
order by g.count desc, g.seq desc`,
		failedSeqs: `
select m.seq::text as seq from ${schema}.failed m, ${FAILED_WHERE$2}
  and m.seq > coalesce($9::bigint, 0)
order by m.seq limit $10::integer`,
		failedGet: `select ${FAILED$2} from ${schema}.failed m where m.seq = $1::bigint`,
		failedLock: `
select m.seq::text as seq, m.origin, m.consumer,
  case m.origin
    when 'outbox' then (select o.seq::text from ${schema}.outbox o where o.seq = m.held_seq and o.held_at is not null)
    else (select i.seq::text from ${schema}.inbox i where i.seq = m.held_seq and i.held_at is not null)
  end as held_seq
from ${schema}.failed m where m.seq = $1::bigint and (m.replaced_by is null or $2::boolean) for update`,
		copyBack: {
			inbox: `
insert into ${schema}.inbox (consumer, ${COLUMNS$3}, lane, ordered, available_at)
select consumer, ${COLUMNS$3}, lane, ordered, clock_timestamp() from ${schema}.failed where seq = $1::bigint`,
			outbox: `
insert into ${schema}.outbox (relay, ${COLUMNS$3}, lane, available_at)
select consumer, ${COLUMNS$3}, lane, clock_timestamp() from ${schema}.failed where seq = $1::bigint`
		},
		copyEdited: {
			inbox: `
insert into ${schema}.inbox (${COLUMNS$3}, consumer, lane, ordered, available_at)
select ${VALUES$1}, consumer, lane, ordered, clock_timestamp() from ${schema}.failed where seq = $9::bigint`,
			outbox: `
insert into ${schema}.outbox (${COLUMNS$3}, relay, lane, available_at)
select ${VALUES$1}, consumer, lane, clock_timestamp() from ${schema}.failed where seq = $9::bigint`
		},
		unhold: both((table) => `
update ${schema}.${table} set held_at = null, error = null, available_at = clock_timestamp(), ${counts[table]}
where seq = $1::bigint`),
		replaceHeld: both((table) => `
update ${schema}.${table} set (${COLUMNS$3}) = row (${VALUES$1}),
  held_at = null, error = null, available_at = clock_timestamp(), ${counts[table]}
where seq = $9::bigint`),
		deleteHeld: both((table) => `delete from ${schema}.${table} where seq = $1::bigint`),
		deleteFailed: `delete from ${schema}.failed where seq = $1::bigint`,
		failedReplaced: `update ${schema}.failed set replaced_by = $1::text, held_seq = null where seq = $2::bigint`,
		insertReceipt: `
insert into ${schema}.receipts (consumer, message_key, token, source, id, type, fingerprint)
values ($1::text, $2::uuid, $3::uuid, $4::text, $5::text, $6::text, decode($7::text, 'hex'))`,
		auditFailed: `
insert into ${schema}.audit (action, actor, note, origin, consumer, source, id, type)
select $1::text, $2::text, $3::text, origin, consumer, source, id, type from ${schema}.failed where seq = $4::bigint`,
		auditOther: `
insert into ${schema}.audit (action, actor, note, origin, consumer, source, id, type)
values ($1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text)`,
		heldKeys: `
select h.origin, h.scope, h.key, h.id, ${MS$3("h.held_at")} as held_at, failed.seq::text as failed_seq,
  case h.origin
    when 'outbox' then (select count(*) from ${schema}.outbox o
      where o.relay = h.scope and o.lane = h.lane and o.key = h.key and o.key is not null and o.seq > h.seq)
    else (select count(*) from ${schema}.inbox i
      where i.consumer = h.scope and i.lane = h.lane and i.key = h.key and i.ordered and i.seq > h.seq)
  end as waiting
from (
  select 'inbox' as origin, seq, consumer as scope, lane, key, id, held_at from ${schema}.inbox
  where held_at is not null and key is not null
  union all
  select 'outbox', seq, relay, lane, key, id, held_at from ${schema}.outbox
  where held_at is not null and key is not null
  order by held_at, seq limit $1::integer
) as h left join ${schema}.failed on failed.origin = h.origin and failed.held_seq = h.seq
order by h.held_at, h.seq`,
		lockHeld: {
			inbox: `
select m.seq::text as seq, m.source, m.id, m.type,
  (select f.seq::text from ${schema}.failed f where f.origin = 'inbox' and f.held_seq = m.seq limit 1) as failed_seq
from ${schema}.inbox m
where m.consumer = $1::text and m.key = $2::text and m.held_at is not null order by m.seq limit 1 for update`,
			outbox: `
select m.seq::text as seq, m.source, m.id, m.type,
  (select f.seq::text from ${schema}.failed f where f.origin = 'outbox' and f.held_seq = m.seq limit 1) as failed_seq
from ${schema}.outbox m
where m.relay = $1::text and m.key = $2::text and m.held_at is not null order by m.seq limit 1 for update`
		},
		heldToFailed: {
			inbox: `
insert into ${schema}.failed (origin, consumer, ${COLUMNS$3}, lane, ordered, attempts, reason, error)
select 'inbox', consumer, ${COLUMNS$3}, lane, ordered, attempts, 'permanent',
  coalesce(error, '{"name":"Error","message":"held for a reason that is not known any more"}')
from ${schema}.inbox where seq = $1::bigint
on conflict do nothing`,
			outbox: `
insert into ${schema}.failed (origin, consumer, ${COLUMNS$3}, lane, ordered, attempts, reason, error)
select 'outbox', relay, ${COLUMNS$3}, lane, key is not null, attempts, 'permanent',
  coalesce(error, '{"name":"Error","message":"held for a reason that is not known any more"}')
from ${schema}.outbox where seq = $1::bigint
on conflict do nothing`
		},
		failedLetGo: `update ${schema}.failed set held_seq = null where origin = $1::text and held_seq = $2::bigint`,
		moveRelay: `
insert into ${schema}.relays (name, destination) values ($1::text, $2::text)
on conflict (name) do update set destination = excluded.destination, recorded_at = clock_timestamp()`,
		subscriptions: `select consumer, type, ordered from ${schema}.subscriptions order by consumer, type`,
		lockSubscriptions: `select type from ${schema}.subscriptions where consumer = $1::text order by type for update`,
		unsubscribe: `delete from ${schema}.subscriptions where consumer = $1::text`,
		sentList: `
select m.seq::text as seq, m.relay, ${MS$3("m.sent_at")} as sent_at, ${MESSAGE$5} from ${schema}.sent m, ${SENT_WHERE$2}
  and m.seq < coalesce($5::bigint, 9223372036854775807)
order by m.seq desc limit $6::integer`,
		sentSeqs: `
select m.seq::text as seq from ${schema}.sent m, ${SENT_WHERE$2}
  and m.seq > coalesce($5::bigint, 0)
order by m.seq limit $6::integer`,
		sentGet: `select m.seq::text as seq, m.relay, ${MESSAGE$5} from ${schema}.sent m where m.seq = $1::bigint`,
		republish: `
insert into ${schema}.outbox (relay, ${COLUMNS$3}, lane, available_at)
select relay, ${COLUMNS$3}, $1::smallint, clock_timestamp() from ${schema}.sent where seq = $2::bigint`,
		cleanReceipts: `
with given as (
  select $1::text as consumer, coalesce($2::uuid, '00000000-0000-0000-0000-000000000000') as after,
    ${AGO$1("$3::float8")} as before, $4::integer as size
), page as materialized (
  select r.message_key, r.taken_at < given.before as old from ${schema}.receipts r, given
  where r.consumer = given.consumer and r.message_key > given.after
  order by r.message_key limit (select size from given)
), gone as (
  delete from ${schema}.receipts r using page, given
  where r.consumer = given.consumer and r.message_key = page.message_key and page.old and not (${UNFINISHED(schema)})
  returning 1
)
select (select count(*) from gone) as deleted,
  case when (select count(*) from page) = given.size
    then (select message_key::text from page order by message_key desc limit 1) end as after
from given`,
		cleanable: `
select count(*) as count from ${schema}.receipts r, (values ($1::text, ${AGO$1("$2::float8")})) as given (consumer, before)
where r.consumer = given.consumer and r.taken_at < given.before and not (${UNFINISHED(schema)})`,
		cleanSent: `
with given as (
  select $1::text as relay, ${AGO$1("$2::float8")} as before, $3::integer as size
), page as materialized (
  select m.seq, m.sent_at < given.before as old from ${schema}.sent m, given
  where m.relay = given.relay order by m.seq limit (select size from given)
), gone as (
  delete from ${schema}.sent using page where sent.seq = page.seq and page.old returning sent.seq
)
select count(*) as deleted, case when count(*) = (select size from given) then max(seq)::text end as after from gone`,
		cleanAudit: `
with given as (
  select ${AGO$1("$1::float8")} as before, $2::integer as size
), page as materialized (
  select m.seq, m.at < given.before as old from ${schema}.audit m, given order by m.seq limit (select size from given)
), gone as (
  delete from ${schema}.audit using page where audit.seq = page.seq and page.old returning audit.seq
)
select count(*) as deleted, case when count(*) = (select size from given) then max(seq)::text end as after from gone`,
		statusConsumers: `
select consumer, sum(receipts) as receipts, sum(waiting) as waiting, sum(retrying) as retrying, sum(held) as held,
  sum(failed) as failed
from (
  select consumer, count(*) as receipts, 0 as waiting, 0 as retrying, 0 as held, 0 as failed
  from ${schema}.receipts group by consumer
  union all
  select consumer, 0, count(*) filter (where held_at is null and attempts = 0),
    count(*) filter (where held_at is null and attempts > 0), count(held_at), 0
  from ${schema}.inbox group by consumer
  union all
  select consumer, 0, 0, 0, 0, count(*) from ${schema}.failed
  where origin = 'inbox' and replaced_by is null group by consumer
) as counts
group by consumer order by consumer`,
		statusRelays: `
select relay, sum(waiting) as waiting, sum(held) as held, sum(failed) as failed, ${MS$3("min(oldest)")} as oldest,
  max(destination) as destination
from (
  select relay, count(*) - count(held_at) as waiting, count(held_at) as held, 0 as failed, min(created_at) as oldest,
    null as destination
  from ${schema}.outbox group by relay
  union all
  select consumer, 0, 0, count(*), null, null from ${schema}.failed
  where origin = 'outbox' and replaced_by is null group by consumer
  union all
  select name, 0, 0, 0, null, destination from ${schema}.relays
) as counts
group by relay order by relay`,
		trace: [
			`
select 'receipt' as place, consumer as scope, source, type, ${MS$3("taken_at")} as at
from ${schema}.receipts where id = $1::text`,
			`
select 'inbox' as place, consumer as scope, source, type, ${MS$3("created_at")} as at, attempts, key,
  ${MS$3("available_at")} as due_at, ${MS$3("held_at")} as held_at, error
from ${schema}.inbox where id = $1::text`,
			`
select 'outbox' as place, relay as scope, source, type, ${MS$3("created_at")} as at, attempts, key,
  ${MS$3("held_at")} as held_at, error
from ${schema}.outbox where id = $1::text`,
			`
select 'sent' as place, relay as scope, source, type, ${MS$3("sent_at")} as at from ${schema}.sent where id = $1::text`,
			`
select 'failed' as place, seq::text as seq, origin, consumer as scope, source, type, ${MS$3("failed_at")} as at, attempts,
  reason, held_seq::text as held_seq, replaced_by, error
from ${schema}.failed where id = $1::text`,
			`
select 'audit' as place, consumer as scope, source, type, ${MS$3("at")} as at, action, actor, note
from ${schema}.audit where id = $1::text`
		]
	};
}
// src/stores/postgres/sql.ts
const NO_PARAMS$5 = [];
const plain$6 = (text) => ({
	text,
	params: NO_PARAMS$5
});
/** The statements of PostgreSQL in one schema. */
function dialect$2(schema) {
	const sql = statements$4(schema);
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
		delimiter: void 0,
		migrationLock: [
			plain$6(`set local lock_timeout = '60s'`),
			{
				text: "select pg_advisory_xact_lock(hashtextextended($1::text, 0))",
				params: [`hapax migrate ${schema}`]
			},
			plain$6(`create schema if not exists ${schema}`)
		],
		migrationUnlock: [],
		migrationTable: plain$6(sql.migrationTable),
		migrationRows: plain$6(sql.migrationRows),
		migrationDone: (version, name, checksum) => ({
			text: sql.migrationDone,
			params: [
				version,
				name,
				checksum
			]
		}),
		settings: ({ lockTimeoutMs, idleTimeoutMs }, opening) => [plain$6(`set local idle_in_transaction_session_timeout = ${Math.ceil(idleTimeoutMs)}`), ...opening === "plain" ? [] : [plain$6(`set local lock_timeout = ${Math.max(1, Math.ceil(lockTimeoutMs))}`)]],
		guardSet: [plain$6("set local lock_timeout to default"), plain$6("savepoint hapax")],
		guardRelease: [plain$6("release savepoint hapax")],
		guardCheck: [plain$6("release savepoint hapax;savepoint hapax")],
		guardRollback: [plain$6("rollback to savepoint hapax")],
		take: (consumer, token, messages) => [messages.length === 1 ? takeOne(sql.takeOne, consumer, token, messages[0]) : takeMany(sql.takeMany, consumer, token, messages)],
		taken: ([answer], _token, messages) => takenKeys$2(answer, messages.length),
		receipts: (consumer, keys) => ({
			text: sql.receipts,
			params: [consumer, array(keys)]
		}),
		claim: (seqs) => ({
			text: sql.claim,
			params: [array(seqs)]
		}),
		lockAll: (seqs) => ({
			text: sql.lockAll,
			params: [array(seqs)]
		}),
		claimDeletes: true,
		blocked: (seqs) => ({
			text: sql.blocked,
			params: [array(seqs), array(seqs)]
		}),
		backend: (answers) => backendOf$1(answers.find((answer) => answer.rows.length > 0)),
		terminate: ([pid, xid]) => ({
			text: sql.terminate,
			params: [Number(pid), String(xid)]
		}),
		fate: ([, xid]) => ({
			text: sql.fate,
			params: [String(xid)]
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
				array(rows.map((row) => row.error && JSON.stringify(row.error))),
				array(rows.map((row) => laneOf(row.message, row.ordered))),
				array(rows.map((row) => String(inOrder$1(row))))
			]
		}],
		insertFailed: (rows) => [{
			text: sql.insertFailed,
			params: [
				array(rows.map((row) => row.consumer)),
				...messageArrays(rows.map((row) => row.message)),
				array(rows.map((row) => row.attempts)),
				array(rows.map((row) => row.reason)),
				array(rows.map((row) => JSON.stringify(row.error))),
				array(rows.map((row) => errorHash(row.error))),
				array(rows.map((row) => laneOf(row.message, row.ordered))),
				array(rows.map((row) => String(inOrder$1(row))))
			]
		}],
		insertOutbox: (rows) => [{
			text: sql.insertOutbox,
			params: [
				array(rows.map((row) => row.relay)),
				...messageArrays(rows.map((row) => row.message)),
				array(rows.map((row) => row.delayMs)),
				array(rows.map((row) => laneOf(row.message, true)))
			]
		}],
		writeLocal: async (executor, rows, token) => {
			const known = rows.flatMap(({ message, consumers }) => consumers.map((consumer) => ({
				type: message.type,
				consumer
			})));
			const { rows: answers } = await executor.query(sql.writeLocal, [
				...messageArrays(rows.map((row) => row.message)),
				array(rows.map((row) => row.delayMs)),
				array(rows.map((row) => laneOf(row.message, false))),
				array(rows.map((row) => laneOf(row.message, true))),
				array(known.map(({ type }) => encodeText(type))),
				array(known.map(({ consumer }) => consumer.name)),
				array(known.map(({ consumer }) => String(consumer.ordered))),
				token
			]);
			return answers.map((row) => ({
				consumers: Number(row["consumers"]),
				fresh: Number(row["fresh"])
			}));
		},
		look: (query, shares) => query({
			text: sql.look,
			params: [...columns$3(shares, "inbox"), ...columns$3(shares, "outbox")]
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
		lockInbox: (seq) => ({
			text: sql.lockInbox,
			params: [seq]
		}),
		copyToFailed: ({ seq, attempts, reason, error, hold }) => ({
			text: sql.copyToFailed,
			params: [
				String(hold),
				attempts,
				reason,
				JSON.stringify(error),
				errorHash(error),
				seq
			]
		}),
		holdInbox: ({ seq, attempts, error }) => ({
			text: sql.holdInbox,
			params: [
				attempts,
				JSON.stringify(error),
				seq
			]
		}),
		inboxSeq: (consumer, messageKey) => ({
			text: sql.inboxSeq,
			params: [consumer, messageKey]
		}),
		outboxRows: (seqs) => ({
			text: sql.outboxRows,
			params: [array(seqs)]
		}),
		copyToSent: (seqs) => ({
			text: sql.copyToSent,
			params: [array(seqs)]
		}),
		deleteOutbox: (seqs) => ({
			text: sql.deleteOutbox,
			params: [array(seqs)]
		}),
		postpone: (rows) => [{
			text: sql.postpone,
			params: [
				array(rows.map((row) => row.seq)),
				array(rows.map((row) => row.delayMs)),
				array(rows.map((row) => JSON.stringify(row.error)))
			]
		}],
		lockOutbox: (seq) => ({
			text: sql.lockOutbox,
			params: [seq]
		}),
		refuseToFailed: ({ seq, reason, error, hold }) => ({
			text: sql.refuseToFailed,
			params: [
				String(hold),
				reason,
				JSON.stringify(error),
				errorHash(error),
				seq
			]
		}),
		holdOutbox: ({ seq, error }) => ({
			text: sql.holdOutbox,
			params: [JSON.stringify(error), seq]
		}),
		recordRelay: (name, destination) => ({
			text: sql.recordRelay,
			params: [name, destination]
		}),
		relay: (name) => ({
			text: sql.relay,
			params: [name]
		}),
		join: ({ id, name, ttlMs, serves }) => ({
			text: sql.join,
			params: [
				id,
				ttlMs,
				name,
				serves
			]
		}),
		note: (id, inHand, alone, beat) => ({
			text: beat ? sql.beat : sql.note,
			params: [
				inHand,
				String(alone),
				id
			]
		}),
		workers: plain$6(sql.workers),
		lockDead: plain$6(sql.lockDead),
		suspect: (seqs) => ({
			text: sql.suspect,
			params: [array(seqs)]
		}),
		crashed: (seqs) => ({
			text: sql.crashed,
			params: [array(seqs)]
		}),
		leave: (ids) => ({
			text: sql.leave,
			params: [array(ids)]
		}),
		subscribe: (consumer, type, ordered) => ({
			text: sql.subscribe,
			params: [
				consumer,
				encodeText(type),
				String(ordered)
			]
		}),
		subscription: (consumer, type) => ({
			text: sql.subscription,
			params: [consumer, encodeText(type)]
		}),
		operator: operator$2(schema)
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
/** A message without a key has no order to keep. */
function inOrder$1({ message, ordered }) {
	return ordered && message.key !== null;
}
/** How many rows a look lists of the first key of a lane; of the others less and less, because there may be many. */
const RUN$2 = 100;
/** How many suspects of a lane a look lists: they run one after the other, and must not stand in the way of the rest. */
const SUSPECTS = 2;
/** The shares of a table, column by column: share, scope, page, types, lanes, after; the last three are lists as texts. */
function columns$3(shares, table) {
	const rows = shares.map((share, index) => ({
		share,
		index
	})).filter(({ share }) => share.table === table);
	return [
		array(rows.map(({ index }) => index)),
		array(rows.map(({ share }) => share.scope)),
		array(rows.map(({ share }) => pageOf(share))),
		array(rows.map(({ share }) => array(share.types.map(encodeText)))),
		array(rows.map(({ share }) => array(share.lanes))),
		array(rows.map(({ share }) => array(share.lanes.map((lane) => encodeText(share.after.get(lane) ?? "")))))
	];
}
function backendOf$1(answer) {
	const row = answer?.rows[0];
	return row && [Number(row["pid"]), String(row["xid"])];
}
const MS$2 = (column) => `(extract(epoch from ${column}) * 1000)::float8`;
const LATER$2 = (parameter) => `clock_timestamp() + ${parameter} * interval '1 millisecond'`;
const MESSAGE$4 = `message_key::text as message_key, source, id, type, key, attributes, data, encode(fingerprint, 'hex') as fingerprint`;
const INBOX$1 = `seq::text as seq, consumer, ${MESSAGE$4}, ordered, attempts, lost, starts, crashes`;
const BACKEND = `pg_backend_pid() as pid, pg_current_xact_id()::text as xid`;
/**
* Every statement, whole and by name. Parameters are scalars, each used once and in order, each cast.
* ON CONFLICT names no key: while REINDEX CONCURRENTLY swaps the index, a named one is not found, or is not the only one.
*/
function statements$4(schema) {
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
  encode(fingerprint, 'hex') as fingerprint, ${MS$2("taken_at")} as taken_at
from ${schema}.receipts where consumer = $1::text and message_key = any ($2::text::uuid[])`,
		claim: `
with mine as materialized (
  select seq, consumer, lane, key, ordered from ${schema}.inbox
  where seq = any ($1::text::bigint[]) and held_at is null order by seq for update skip locked
), kept as (
  select seq from mine
  where not ordered or not exists (
    select from ${schema}.inbox older
    where older.ordered and older.consumer = mine.consumer and older.lane = mine.lane and older.key = mine.key
      and older.seq < mine.seq and older.seq not in (select seq from mine))
)
delete from ${schema}.inbox where seq = any (array(select seq from kept))
returning ${INBOX$1}, ${BACKEND}`,
		lockAll: `
select seq::text as seq, ${BACKEND} from ${schema}.inbox
where seq = any ($1::text::bigint[]) order by inbox.seq for update`,
		blocked: `
select mine.seq::text as seq from ${schema}.inbox mine
where mine.seq = any ($1::text::bigint[]) and mine.ordered and exists (
  select from ${schema}.inbox older
  where older.ordered and older.consumer = mine.consumer and older.lane = mine.lane and older.key = mine.key
    and older.seq < mine.seq and older.seq <> all ($2::text::bigint[]))`,
		fate: `select pg_xact_status($1::text::xid8) as fate`,
		terminate: `
select pg_terminate_backend(pid) from pg_stat_activity
where pid = $1::integer and backend_xid::text = $2::text`,
		deleteInbox: `delete from ${schema}.inbox where seq = any ($1::text::bigint[])`,
		insertInbox: `
insert into ${schema}.inbox
  (consumer, message_key, source, id, type, key, attributes, data, fingerprint, attempts, starts, available_at, error,
    lane, ordered)
select m.consumer, m.message_key, m.source, m.id, m.type, m.key, m.attributes, m.data, decode(m.fingerprint, 'hex'),
  m.attempts, m.starts, ${LATER$2("m.delay_ms")}, m.error, m.lane, m.ordered
from unnest($1::text::text[], $2::text::uuid[], $3::text::text[], $4::text::text[], $5::text::text[], $6::text::text[],
  $7::text::text[], $8::text::bytea[], $9::text::text[], $10::text::integer[], $11::text::integer[],
  $12::text::float8[], $13::text::text[], $14::text::smallint[], $15::text::boolean[])
  with ordinality as m (consumer, message_key, source, id, type, key, attributes, data, fingerprint,
    attempts, starts, delay_ms, error, lane, ordered, place)
order by m.place`,
		insertFailed: `
insert into ${schema}.failed
  (consumer, message_key, source, id, type, key, attributes, data, fingerprint, attempts, reason, error, error_hash,
    lane, ordered)
select m.consumer, m.message_key, m.source, m.id, m.type, m.key, m.attributes, m.data, decode(m.fingerprint, 'hex'),
  m.attempts, m.reason, m.error, m.error_hash, m.lane, m.ordered
from unnest($1::text::text[], $2::text::uuid[], $3::text::text[], $4::text::text[], $5::text::text[], $6::text::text[],
  $7::text::text[], $8::text::bytea[], $9::text::text[], $10::text::integer[], $11::text::text[], $12::text::text[],
  $13::text::text[], $14::text::smallint[], $15::text::boolean[])
  as m (consumer, message_key, source, id, type, key, attributes, data, fingerprint, attempts, reason, error,
    error_hash, lane, ordered)
on conflict do nothing`,
		insertOutbox: `
insert into ${schema}.outbox
  (relay, message_key, source, id, type, key, attributes, data, fingerprint, available_at, lane)
select m.relay, m.message_key, m.source, m.id, m.type, m.key, m.attributes, m.data, decode(m.fingerprint, 'hex'),
  ${LATER$2("m.delay_ms")}, m.lane
from unnest($1::text::text[], $2::text::uuid[], $3::text::text[], $4::text::text[], $5::text::text[], $6::text::text[],
  $7::text::text[], $8::text::bytea[], $9::text::text[], $10::text::float8[], $11::text::smallint[])
  with ordinality as m (relay, message_key, source, id, type, key, attributes, data, fingerprint, delay_ms, lane, place)
order by m.place`,
		writeLocal: `
with m as (
  select * from unnest($1::text::uuid[], $2::text::text[], $3::text::text[], $4::text::text[], $5::text::text[],
    $6::text::text[], $7::text::bytea[], $8::text::text[], $9::text::float8[], $10::text::smallint[],
    $11::text::smallint[])
    with ordinality as m (message_key, source, id, type, key, attributes, data, fingerprint, delay_ms, lane, key_lane, place)
), known as (
  select distinct * from unnest($12::text::text[], $13::text::text[], $14::text::boolean[])
    as known (type, consumer, ordered)
), listening as (
  select type, consumer, ordered from known
  union all
  select type, consumer, ordered from ${schema}.subscriptions
  where not exists (select from known where known.type = subscriptions.type and known.consumer = subscriptions.consumer)
), target as (
  select m.*, listening.consumer, listening.ordered and m.key is not null as ordered
  from m join listening on listening.type = m.type
), receipt as (
  insert into ${schema}.receipts (consumer, message_key, token, source, id, type, fingerprint)
  select consumer, message_key, $15::uuid, source, id, type, decode(fingerprint, 'hex') from target
  order by consumer, message_key
  on conflict do nothing
  returning consumer, message_key
), delivered as (
  insert into ${schema}.inbox
    (consumer, message_key, source, id, type, key, attributes, data, fingerprint, available_at, lane, ordered)
  select consumer, message_key, source, id, type, key, attributes, data, decode(fingerprint, 'hex'),
    ${LATER$2("delay_ms")}, case when ordered then key_lane else lane end, ordered
  from target join receipt using (consumer, message_key)
  order by place, consumer
)
select count(target.consumer) as consumers, count(receipt.consumer) as fresh
from m left join target using (place)
  left join receipt on receipt.consumer = target.consumer and receipt.message_key = target.message_key
group by place order by place`,
		look: `
with inbox_share as (
  select share, scope, page, types::text[] as types, lanes, afters
  from unnest($1::text::integer[], $2::text::text[], $3::text::integer[], $4::text::text[],
    $5::text::text[], $6::text::text[]) as s (share, scope, page, types, lanes, afters)
  offset 0
), outbox_share as (
  select share, scope, page, types::text[] as types, lanes, afters
  from unnest($7::text::integer[], $8::text::text[], $9::text::integer[], $10::text::text[],
    $11::text::text[], $12::text::text[]) as s (share, scope, page, types, lanes, afters)
  offset 0
)
select s.share, r.seq::text as seq, r.type, r.lane, null as key, r.bytes, r.ms, false as held, r.starts
from inbox_share as s
cross join lateral (select from ${schema}.inbox i where i.consumer = s.scope and not i.ordered limit 1) as there
cross join lateral unnest(s.lanes::smallint[]) as l (lane)
cross join lateral (
  (select i.seq, i.type, i.lane, octet_length(i.data) as bytes, ${MS$2("i.available_at - now()")} as ms, i.starts as starts
  from ${schema}.inbox i
  where i.consumer = s.scope and i.lane = l.lane and not i.ordered and i.available_at <= now() and i.type = any (s.types)
    and i.starts = 0
  order by i.available_at, i.seq limit s.page)
  union all
  (select i.seq, i.type, i.lane, octet_length(i.data), ${MS$2("i.available_at - now()")}, i.starts
  from ${schema}.inbox i
  where i.consumer = s.scope and i.lane = l.lane and not i.ordered and i.available_at <= now() and i.type = any (s.types)
    and i.starts > 0
  order by i.available_at, i.seq limit ${SUSPECTS})
  union all
  (select i.seq, i.type, i.lane, 0, ${MS$2("i.available_at - now()")}, 0
  from ${schema}.inbox i
  where i.consumer = s.scope and i.lane = l.lane and not i.ordered and i.available_at > now() and i.type = any (s.types)
  order by i.available_at, i.seq limit 1)
) as r
union all
select s.share, r.seq::text, r.type, r.lane, r.key, r.bytes, r.ms, r.held, r.starts
from inbox_share as s
cross join lateral (select from ${schema}.inbox i where i.consumer = s.scope and i.ordered limit 1) as there
cross join lateral unnest(s.lanes::smallint[], s.afters::text[]) as l (lane, after)
cross join lateral (
  with recursive head as (
    (select 1 as rank, i.key, i.held_at is null and i.available_at <= now() as ready from ${schema}.inbox i
    where i.consumer = s.scope and i.lane = l.lane and i.ordered and i.key > l.after
    order by i.key, i.seq limit 1)
    union all
    select head.rank + 1, next.* from head cross join lateral (
      select i.key, i.held_at is null and i.available_at <= now() from ${schema}.inbox i
      where i.consumer = s.scope and i.lane = l.lane and i.ordered and i.key > head.key
      order by i.key, i.seq limit 1) as next
  )
  select * from head limit s.page
) as head
cross join lateral (
  select i.seq, i.type, i.lane, i.key, octet_length(i.data) as bytes, ${MS$2("i.available_at - now()")} as ms,
    i.held_at is not null as held, i.starts as starts
  from ${schema}.inbox i
  where i.consumer = s.scope and i.lane = l.lane and i.ordered and i.key = head.key
  order by i.seq limit case when head.ready then greatest(1, ${RUN$2} / head.rank ^ 2)::integer else 1 end
) as r
union all
select s.share, r.seq::text as seq, r.type, r.lane, null as key, r.bytes, r.ms, false as held, r.starts
from outbox_share as s
cross join lateral (select from ${schema}.outbox i where i.relay = s.scope and i.key is null limit 1) as there
cross join lateral unnest(s.lanes::smallint[]) as l (lane)
cross join lateral (
  (select i.seq, i.type, i.lane, octet_length(i.data) as bytes, ${MS$2("i.available_at - now()")} as ms, 0 as starts
  from ${schema}.outbox i
  where i.relay = s.scope and i.lane = l.lane and i.key is null and i.available_at <= now()
  order by i.available_at, i.seq limit s.page)
  union all
  (select i.seq, i.type, i.lane, 0, ${MS$2("i.available_at - now()")}, 0
  from ${schema}.outbox i
  where i.relay = s.scope and i.lane = l.lane and i.key is null and i.available_at > now()
  order by i.available_at, i.seq limit 1)
) as r
union all
select s.share, r.seq::text, r.type, r.lane, r.key, r.bytes, r.ms, r.held, r.starts
from outbox_share as s
cross join lateral (select from ${schema}.outbox i where i.relay = s.scope and i.key is not null limit 1) as there
cross join lateral unnest(s.lanes::smallint[], s.afters::text[]) as l (lane, after)
cross join lateral (
  with recursive head as (
    (select 1 as rank, i.key, i.held_at is null and i.available_at <= now() as ready from ${schema}.outbox i
    where i.relay = s.scope and i.lane = l.lane and i.key is not null and i.key > l.after
    order by i.key, i.seq limit 1)
    union all
    select head.rank + 1, next.* from head cross join lateral (
      select i.key, i.held_at is null and i.available_at <= now() from ${schema}.outbox i
      where i.relay = s.scope and i.lane = l.lane and i.key is not null and i.key > head.key
      order by i.key, i.seq limit 1) as next
  )
  select * from head limit s.page
) as head
cross join lateral (
  select i.seq, i.type, i.lane, i.key, octet_length(i.data) as bytes, ${MS$2("i.available_at - now()")} as ms,
    i.held_at is not null as held, 0 as starts
  from ${schema}.outbox i
  where i.relay = s.scope and i.lane = l.lane and i.key is not null and i.key = head.key
  order by i.seq limit case when head.ready then greatest(1, ${RUN$2} / head.rank ^ 2)::integer else 1 end
) as r`,
		reschedule: `
update ${schema}.inbox set attempts = $1::integer, lost = $2::integer, starts = 0,
  available_at = ${LATER$2("$3::float8")}, error = $4::text
where seq = $5::bigint`,
		lockInbox: `select seq::text as seq from ${schema}.inbox where seq = $1::bigint for update`,
		copyToFailed: `
insert into ${schema}.failed
  (consumer, message_key, source, id, type, key, attributes, data, fingerprint, lane, ordered, held_seq, attempts, reason,
    error, error_hash)
select consumer, message_key, source, id, type, key, attributes, data, fingerprint, lane, ordered,
  case when $1::boolean then seq end, $2::integer, $3::text, $4::text, $5::text
from ${schema}.inbox where seq = $6::bigint
on conflict (consumer, message_key, fingerprint, origin) do update
set held_seq = coalesce(failed.held_seq, excluded.held_seq), replaced_by = null`,
		holdInbox: `
update ${schema}.inbox set held_at = clock_timestamp(), attempts = $1::integer, error = $2::text, starts = 0
where seq = $3::bigint`,
		inboxSeq: `
select seq::text as seq from ${schema}.inbox
where consumer = $1::text and message_key = $2::uuid order by inbox.seq limit 1`,
		outboxRows: `
select seq::text as seq, relay, ${MESSAGE$4}, attempts from ${schema}.outbox
where seq = any ($1::text::bigint[]) order by outbox.seq`,
		copyToSent: `
insert into ${schema}.sent (message_key, fingerprint, relay, source, id, type, key, attributes, data)
select message_key, fingerprint, relay, source, id, type, key, attributes, data from ${schema}.outbox
where seq = any ($1::text::bigint[]) order by seq`,
		deleteOutbox: `delete from ${schema}.outbox where seq = any ($1::text::bigint[])`,
		postpone: `
update ${schema}.outbox set attempts = attempts + 1, available_at = ${LATER$2("m.delay_ms")}, error = m.error
from unnest($1::text::bigint[], $2::text::float8[], $3::text::text[]) as m (seq, delay_ms, error)
where outbox.seq = m.seq`,
		lockOutbox: `select seq::text as seq from ${schema}.outbox where seq = $1::bigint for update`,
		refuseToFailed: `
insert into ${schema}.failed
  (origin, consumer, message_key, source, id, type, key, attributes, data, fingerprint, lane, ordered, attempts, held_seq,
    reason, error, error_hash)
select 'outbox', relay, message_key, source, id, type, key, attributes, data, fingerprint, lane, key is not null,
  attempts + 1, case when $1::boolean then seq end, $2::text, $3::text, $4::text
from ${schema}.outbox where seq = $5::bigint
on conflict (consumer, message_key, fingerprint, origin) do update
set held_seq = coalesce(failed.held_seq, excluded.held_seq), replaced_by = null`,
		holdOutbox: `
update ${schema}.outbox set held_at = clock_timestamp(), attempts = attempts + 1, error = $1::text
where seq = $2::bigint`,
		recordRelay: `
insert into ${schema}.relays (name, destination) values ($1::text, $2::text) on conflict do nothing`,
		relay: `select destination from ${schema}.relays where name = $1::text`,
		join: `
insert into ${schema}.workers (id, ttl_ms, name, serves) values ($1::text, $2::integer, $3::text, $4::text)
on conflict do nothing`,
		note: `
update ${schema}.workers set in_hand = $1::text, alone = $2::boolean
from (select set_config('synchronous_commit', 'off', true)) as at_leisure where id = $3::text`,
		beat: `
update ${schema}.workers set in_hand = $1::text, alone = $2::boolean, heartbeat_at = clock_timestamp()
from (select set_config('synchronous_commit', 'off', true)) as at_leisure where id = $3::text`,
		workers: `
select id, name, serves, ${MS$2("started_at")} as started_at, ${MS$2("clock_timestamp() - heartbeat_at")} as silent_ms,
  clock_timestamp() - heartbeat_at <= ttl_ms * interval '1 millisecond' as alive, in_hand
from ${schema}.workers order by id`,
		lockDead: `
select id, in_hand, alone from ${schema}.workers
where clock_timestamp() - heartbeat_at > ttl_ms * interval '1 millisecond' order by id for update skip locked`,
		suspect: `
update ${schema}.inbox set starts = starts + 1 where seq in (
  select seq from ${schema}.inbox where seq = any ($1::text::bigint[]) order by seq for update skip locked)`,
		crashed: `
update ${schema}.inbox set starts = starts + 1, crashes = crashes + 1 where seq in (
  select seq from ${schema}.inbox where seq = any ($1::text::bigint[]) order by seq for update skip locked)`,
		leave: `delete from ${schema}.workers where id = any ($1::text::text[])`,
		subscribe: `
insert into ${schema}.subscriptions (consumer, type, ordered) values ($1::text, $2::text, $3::boolean)
on conflict (consumer, type) do update set ordered = excluded.ordered`,
		subscription: `select ordered from ${schema}.subscriptions where consumer = $1::text and type = $2::text`
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
		"control",
		"url",
		"max",
		"schema",
		"prepare"
	]);
	return new SqlStore(connectionOf$1(given), dialect$2(quoted(given)));
}
/** Quoted, so that a word of SQL can be a schema as well. */
function quoted({ schema = "hapax" }) {
	return `"${identifier("schema", schema)}"`;
}
function connectionOf$1(options) {
	if (options.prepare !== void 0 && typeof options.prepare !== "boolean") expected("prepare", "true or false", options.prepare);
	return new PgConnection("pool" in options ? given$1(options) : opened$1(options), options.prepare);
}
/** Connections that are kept for control work. */
const CONTROL$1 = 2;
function given$1({ pool, control }) {
	if (typeof pool?.connect !== "function") expected("pool", "a pool of pg", pool);
	listen(pool);
	const handlers = () => Promise.resolve(pool);
	const max = sizeOf$2(pool);
	const size = max === void 0 ? void 0 : {
		max,
		control: control === void 0 ? CONTROL$1 : 0
	};
	if (control === void 0) return {
		size,
		handlers,
		control: handlers,
		close: () => Promise.resolve()
	};
	noOthers("control", control, ["url"]);
	const own = lazyPool$1(checkedUrl$1("control.url", control.url), CONTROL$1);
	return {
		size,
		handlers,
		control: own.get,
		close: own.close
	};
}
function opened$1({ url, max }) {
	const most = positiveInteger("max", max, 10);
	const handlers = lazyPool$1(checkedUrl$1("url", url), most);
	const control = lazyPool$1(url, CONTROL$1);
	const close = async () => void await Promise.all([handlers.close(), control.close()]);
	return {
		size: {
			max: most,
			control: 0
		},
		handlers: handlers.get,
		control: control.get,
		close
	};
}
function checkedUrl$1(name, url) {
	if (typeof url !== "string" || !/^postgres(ql)?:\/\//.test(url)) expected(name, "a postgres:// URL", url && "(not shown)");
	return url;
}
/** The size of a pool of `pg`; other pools do not tell. */
function sizeOf$2(pool) {
	const { options } = pool;
	return typeof options?.max === "number" ? options.max : void 0;
}
/** A pool that is opened when it is needed. */
function lazyPool$1(url, max) {
	let opened;
	return {
		get: () => {
			opened ??= openPool$1(url, max);
			return opened;
		},
		close: async () => (await opened)?.end()
	};
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
		const size = row.reduce((sum, param) => sum + sizeOf$1(param), 0);
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
function sizeOf$1(param) {
	return param instanceof Uint8Array ? 2 * param.byteLength + 4 : 24;
}
/** Lists of values in parts of a statement's size. */
function chunks$1(values) {
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
	const [answer] = await (params.reduce((sum, param) => sum + sizeOf$1(param), text.length) <= Math.min(4194304, knownSession(client)?.maxPacket ?? 4194304) ? client.query(query) : sendLarge(client, query, params));
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
	const each = execute === void 0 ? sizeOf$1 : bytesOf;
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
const MANY$1 = (count) => Array(count).fill("?").join(", ");
/** A seq is text in JavaScript; compared as text, the server would round it. */
const SEQ$2 = "cast(? as signed)";
const SEQS$2 = (count) => Array(count).fill(SEQ$2).join(", ");
/** By key, even where a table is so small that a scan seems cheaper: a scan locks the rows of others, and deadlocks. */
const BY_KEY$1 = "force index (primary)";
const MS$1 = (time) => `timestampdiff(microsecond, '1970-01-01', ${time}) / 1000`;
/** UTC whatever the time zone of the session is. */
const NOW$2 = "utc_timestamp(6)";
const LATER$1 = `${NOW$2} + interval ? microsecond`;
const MESSAGE$3 = "m.message_key, m.source, m.id, m.type, m.`key`, m.attributes, m.data, m.fingerprint";
const INBOX = `cast(m.seq as char) as seq, m.consumer, ${MESSAGE$3}, m.ordered, m.attempts, m.lost, m.starts, m.crashes`;
const COLUMNS$2 = "message_key, source, id, type, `key`, attributes, data, fingerprint";
const DUE = `timestampdiff(microsecond, ${NOW$2}, m.available_at) / 1000 as ms`;
const SILENT = `timestampdiff(microsecond, heartbeat_at, ${NOW$2}) / 1000`;
/** A lock timeout in whole seconds, as the servers have it; 0 would mean not to wait at all. */
function seconds$1(ms) {
	return Math.max(1, Math.ceil(ms / 1e3));
}
/** Marks a statement that only MySQL runs; to MariaDB it is empty. */
const MYSQL_ONLY = "/*!80000";
/** The lock timeout of one statement, on MariaDB. */
const LOCK_WAIT = (timeout) => `/*M!100100 set statement innodb_lock_wait_timeout = ${timeout} for */`;
/** MySQL has it only by session. The first value that a session had is remembered, whatever happens in between. */
const lockWaitSet = (ms) => `${MYSQL_ONLY} set @hapax_lock_wait = coalesce(@hapax_lock_wait, @@session.innodb_lock_wait_timeout), session innodb_lock_wait_timeout = ${seconds$1(ms)} */`;
const LOCK_WAIT_RESET = `${MYSQL_ONLY} set session innodb_lock_wait_timeout = cast(coalesce(@hapax_lock_wait, @@session.innodb_lock_wait_timeout) as unsigned) */`;
/** Every statement, whole and by name, valid on MariaDB 10.6 and MySQL 8. */
function statements$3(prefix) {
	const [receipts, inbox, outbox, failed, subscriptions, applied, workers, relays, sent] = [
		"receipts",
		"inbox",
		"outbox",
		"failed",
		"subscriptions",
		"migrations",
		"workers",
		"relays",
		"sent"
	].map((name) => prefix + name);
	const lockName = `concat('hapax_', sha1(concat(database(), '.', ?)))`;
	const receipt = {
		head: `insert into ${receipts} (consumer, message_key, token, fingerprint, source, id, type, taken_at) values`,
		row: `(?, ?, ?, ?, ?, ?, ?, ${NOW$2})`,
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
		migrationDone: `insert into ${applied} (version, name, checksum, applied_at) values (?, ?, ?, ${NOW$2})`,
		receipt,
		take: (timeout) => ({
			...receipt,
			head: `${LOCK_WAIT(timeout)} ${receipt.head}`
		}),
		taken: (count) => `
select message_key, token, connection_id() as pid from ${receipts} ${BY_KEY$1}
where consumer = ? and message_key in (${MANY$1(count)})`,
		receipts: (count) => `
select message_key, token, source, id, type, fingerprint, ${MS$1("taken_at")} as taken_at
from ${receipts} ${BY_KEY$1} where consumer = ? and message_key in (${MANY$1(count)})`,
		claim: (count) => `
select ${INBOX}, connection_id() as pid
from (select seq from ${inbox} where seq in (${SEQS$2(count)}) limit ${count}) as there
  straight_join ${inbox} as m ${BY_KEY$1} on m.seq = there.seq
where m.held_at is null order by m.seq for update skip locked`,
		claimSerializable: (count) => `
select ${INBOX}, connection_id() as pid from ${inbox} as m ${BY_KEY$1}
where m.seq in (${SEQS$2(count)}) and m.held_at is null order by m.seq for update skip locked`,
		lockAll: (count, timeout) => `
${LOCK_WAIT(timeout)} select cast(m.seq as char) as seq, connection_id() as pid from ${inbox} as m ${BY_KEY$1}
where m.seq in (${SEQS$2(count)}) order by m.seq for update`,
		blocked: (count) => `
${LOCK_WAIT(1)} select cast(m.seq as char) as seq from ${inbox} as m ${BY_KEY$1}
where m.seq in (${SEQS$2(count)}) and m.key_hash is not null and m.seq > (
  select older.seq from ${inbox} as older force index (inbox_key)
  where older.consumer = m.consumer and older.lane = m.lane and older.key_hash = m.key_hash
    and older.seq not in (${SEQS$2(count)})
  order by older.seq limit 1)`,
		terminate: "kill ?",
		deleteInbox: (count) => `delete m from ${inbox} as m ${BY_KEY$1} where m.seq in (${SEQS$2(count)})`,
		insertInbox: {
			head: `
insert into ${inbox} (consumer, ${COLUMNS$2}, attempts, starts, created_at, available_at, error, lane, ordered) values`,
			row: `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ${NOW$2}, ${LATER$1}, ?, ?, ?)`,
			tail: ""
		},
		insertFailed: {
			head: `
insert into ${failed} (consumer, ${COLUMNS$2}, attempts, reason, error, error_hash, lane, ordered, failed_at) values`,
			row: `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ${NOW$2})`,
			tail: "on duplicate key update message_key = message_key"
		},
		insertOutbox: {
			head: `insert into ${outbox} (relay, ${COLUMNS$2}, created_at, available_at, lane) values`,
			row: `(?, ?, ?, ?, ?, ?, ?, ?, ?, ${NOW$2}, ${LATER$1}, ?)`,
			tail: ""
		},
		listening: (count) => `
select type, consumer, ordered from ${subscriptions} ${BY_KEY$1} where type in (${MANY$1(count)}) lock in share mode`,
		fresh: (count) => `
select message_key from ${receipts} ${BY_KEY$1} where consumer = ? and token = ? and message_key in (${MANY$1(count)})`,
		look: {
			inbox: lookTexts(inbox, "inbox", "consumer", "m.starts"),
			outbox: lookTexts(outbox, "outbox", "relay", "0")
		},
		reschedule: `
update ${inbox} set attempts = ?, lost = ?, starts = 0, available_at = ${LATER$1}, error = ? where seq = ${SEQ$2}`,
		lockInbox: `select cast(m.seq as char) as seq from ${inbox} as m where m.seq = ${SEQ$2} for update`,
		copyToFailed: `
insert into ${failed}
  (consumer, ${COLUMNS$2}, lane, ordered, held_seq, attempts, reason, error, error_hash, failed_at)
select m.consumer, ${MESSAGE$3}, m.lane, m.ordered, if(? = 1, m.seq, null), ?, ?, ?, ?, ${NOW$2}
from ${inbox} as m where m.seq = ${SEQ$2}
on duplicate key update ${failed}.held_seq = coalesce(${failed}.held_seq, values(held_seq)), replaced_by = null`,
		holdInbox: `update ${inbox} set held_at = ${NOW$2}, attempts = ?, error = ?, starts = 0 where seq = ${SEQ$2}`,
		inboxSeq: `
select cast(m.seq as char) as seq from ${inbox} as m
where m.consumer = ? and m.message_key = ? order by m.seq limit 1`,
		outboxRows: (count) => `
select cast(m.seq as char) as seq, m.relay, ${MESSAGE$3}, m.attempts from ${outbox} as m ${BY_KEY$1}
where m.seq in (${SEQS$2(count)}) order by m.seq`,
		copyToSent: (count) => `
insert into ${sent} (relay, ${COLUMNS$2}, sent_at)
select m.relay, ${MESSAGE$3}, ${NOW$2} from ${outbox} as m ${BY_KEY$1} where m.seq in (${SEQS$2(count)}) order by m.seq`,
		deleteOutbox: (count) => `delete m from ${outbox} as m ${BY_KEY$1} where m.seq in (${SEQS$2(count)})`,
		postpone: `
update ${outbox} set attempts = attempts + 1, available_at = ${LATER$1}, error = ? where seq = ${SEQ$2}`,
		lockOutbox: `select cast(m.seq as char) as seq from ${outbox} as m where m.seq = ${SEQ$2} for update`,
		refuseToFailed: `
insert into ${failed}
  (origin, consumer, ${COLUMNS$2}, lane, ordered, attempts, held_seq, reason, error, error_hash, failed_at)
select 'outbox', m.relay, ${MESSAGE$3}, m.lane, m.\`key\` is not null, m.attempts + 1, if(? = 1, m.seq, null), ?, ?, ?, ${NOW$2}
from ${outbox} as m where m.seq = ${SEQ$2}
on duplicate key update ${failed}.held_seq = coalesce(${failed}.held_seq, values(held_seq)), replaced_by = null`,
		holdOutbox: `
update ${outbox} set held_at = ${NOW$2}, attempts = attempts + 1, error = ? where seq = ${SEQ$2}`,
		recordRelay: `
insert into ${relays} (name, destination, recorded_at) values (?, ?, ${NOW$2}) on duplicate key update name = name`,
		relay: `select destination from ${relays} where name = ?`,
		join: `
insert into ${workers} (id, ttl_ms, name, serves, in_hand, started_at, heartbeat_at)
values (?, ?, ?, ?, '[]', ${NOW$2}, ${NOW$2})
on duplicate key update id = id`,
		note: `update ${workers} set in_hand = ?, alone = ?, heartbeat_at = ${NOW$2} where id = ?`,
		workers: `
select id, name, serves, ${MS$1("started_at")} as started_at, ${SILENT} as silent_ms, ${SILENT} <= ttl_ms as alive, in_hand
from ${workers} order by id`,
		lockDead: `
select m.id, m.in_hand, m.alone
from (select id from ${workers} where ${SILENT} > ttl_ms limit 1000) as dead
  straight_join ${workers} as m ${BY_KEY$1} on m.id = dead.id
where ${SILENT} > ttl_ms order by m.id for update skip locked`,
		suspect: (count) => `
update (
  select f.seq from ${inbox} as f ${BY_KEY$1} where f.seq in (${SEQS$2(count)}) order by f.seq limit ${count}
  for update skip locked
) as free straight_join ${inbox} as m ${BY_KEY$1} on m.seq = free.seq
set m.starts = m.starts + 1`,
		crashed: (count) => `
update (
  select f.seq from ${inbox} as f ${BY_KEY$1} where f.seq in (${SEQS$2(count)}) order by f.seq limit ${count}
  for update skip locked
) as free straight_join ${inbox} as m ${BY_KEY$1} on m.seq = free.seq
set m.starts = m.starts + 1, m.crashes = m.crashes + 1`,
		leave: (count) => `delete from ${workers} where id in (${MANY$1(count)})`,
		subscribe: `
insert into ${subscriptions} (type, consumer, ordered) values (?, ?, ?)
on duplicate key update ordered = values(ordered)`,
		subscription: `select ordered from ${subscriptions} where type = ? and consumer = ?`
	};
}
/** Every part reads a few entries of an index from a known place: how many rows there are beside them does not count. */
function lookTexts(table, index, scope, starts) {
	const columns = `cast(m.seq as char) as seq, m.type, m.lane, m.bytes, ${DUE}, ${starts} as starts`;
	const keyed = (share) => `
(select ${share} as share, ${columns}, m.\`key\`, m.held_at is not null as held
from ${table} as m force index (${index}_key) where m.${scope} = ? and m.lane = ?`;
	return {
		occupied: (share) => `
(select ${share} as share, l.lane, (
  select m.key_hash is null from ${table} as m force index (${index}_key)
  where m.${scope} = ? and m.lane = l.lane order by m.key_hash, m.seq limit 1) as loose, (
  select m.key_hash is not null from ${table} as m force index (${index}_key)
  where m.${scope} = ? and m.lane = l.lane order by m.key_hash desc, m.seq desc limit 1) as keyed
from json_table(?, '$[*]' columns (lane int path '$')) as l)`,
		loose: (share, types, limit) => `
(select ${share} as share, ${columns}, null as \`key\`, 0 as held
from ${table} as m force index (${index}_lane)
where m.${scope} = ? and m.lane = ? and m.key_hash is null${types > 0 ? ` and m.type in (${MANY$1(types)})` : ""}
order by m.available_at, m.seq limit ${limit})`,
		firstKeys: (share, limit) => `
${keyed(share)} and m.key_hash is not null order by m.key_hash, m.seq limit ${limit})`,
		nextKeys: (share, limit) => `
${keyed(share)} and m.key_hash > ? order by m.key_hash, m.seq limit ${limit})`,
		run: (share, limit) => `
${keyed(share)} and m.key_hash = ? and m.seq > ${SEQ$2} order by m.seq limit ${limit})`
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
	features;
	#pools;
	constructor(pools) {
		this.#pools = pools;
		const { size: pool } = pools;
		this.features = {
			name: "mysql",
			roundTrips: 6,
			lateUse: "refused",
			unawaited: "detected",
			pool
		};
	}
	async transaction(options, work) {
		const client = await acquire$1(this.#pools.handlers(), options.signal);
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
		const client = await acquire$1(this.#pools.control());
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
		return this.#pools.close();
	}
};
/** A connection of the pool; an abort does not wait for it any longer. */
async function acquire$1(pool, signal) {
	signal?.throwIfAborted();
	const acquiring = (await pool).getConnection();
	if (signal === void 0) return acquiring;
	return new Promise((resolve, reject) => {
		const abort = () => reject(signal.reason);
		signal.addEventListener("abort", abort, { once: true });
		if (signal.aborted) abort();
		acquiring.then((client) => signal.aborted ? client.release() : resolve(client), reject);
		acquiring.finally(() => signal.removeEventListener("abort", abort)).catch(() => {});
	});
}
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
function columns$2(message) {
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
/** lane and ordered: a message without a key has no order to keep. */
function place$1(message, ordered) {
	return [laneOf(message, ordered), Number(ordered && message.key !== null)];
}
/** error and error_hash. */
function errorColumns(error) {
	return [bytes(JSON.stringify(error)), bytes(errorHash(error))];
}
/** consumer, the message, attempts, starts, available_at, error, lane, ordered: a row of the inbox. */
function inboxRow(row) {
	const { consumer, message, ordered, attempts, starts, delayMs, error } = row;
	const state = [
		attempts,
		starts,
		microseconds(delayMs),
		error && bytes(JSON.stringify(error))
	];
	return [
		bytes(consumer),
		...columns$2(message),
		...state,
		...place$1(message, ordered)
	];
}
// src/stores/mysql/local.ts
/** Who listens, receipts where there are none, and an inbox row for each receipt that is new. */
async function writeLocal(sql, executor, rows, token) {
	const listening = await consumersOf(sql, executor, rows);
	const targets = rows.map((row) => targetsOf(listening.get(row.message.type), row));
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
	for (const part of chunks$1(types)) {
		const answer = await executor.query(sql.listening(part.length), part.map(text));
		for (const row of answer.rows) {
			const type = asText(row["type"]);
			const listening = found.get(type) ?? /* @__PURE__ */ new Map();
			found.set(type, listening.set(asText(row["consumer"]), asBoolean(row["ordered"])));
		}
	}
	return found;
}
/** What this process says about its own consumers counts more than what is listed. */
function targetsOf(listed, row) {
	const known = row.consumers.map(({ name, ordered }) => [name, ordered]);
	const listening = new Map([...listed ?? [], ...known]);
	return [...listening.keys()].sort().map((consumer) => ({
		consumer,
		ordered: listening.get(consumer) === true,
		row
	}));
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
	for (const [consumer, own] of Map.groupBy(targets, (target) => target.consumer)) for (const part of chunks$1(own)) {
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
	const values = targets.map(({ consumer, ordered, row: { message, delayMs } }) => inboxRow({
		consumer,
		message,
		ordered,
		attempts: 0,
		starts: 0,
		delayMs,
		error: null
	}));
	for (const { text, params } of inserts(sql.insertInbox, values)) await executor.query(text, params);
}
// src/stores/mysql/look.ts
/** How many rows of one key a look lists at most. */
const RUN$1 = 100;
/** How often a look goes on behind keys with many rows; what is left then is for the next one. */
const ROUNDS = 3;
/** Parts of one statement at most. */
const MAX_PARTS = 200;
/**
* What waits, lane by lane. Neither server can begin a correlated subquery in the middle of an index, and MariaDB has no
* LATERAL, so every place is a SELECT of its own with constants, all of them together one statement. Keys come in the order
* of their hashes; `more` marks the row of a lane behind which there are more keys.
*/
async function look$1(sql, query, shares) {
	const lanes = await occupied(sql, query, shares);
	let open = lanes;
	for (let round = 1; round <= ROUNDS && open.length > 0; round++) {
		const parts = open.flatMap((lane) => lane.parts());
		const found = Map.groupBy(await ask(query, parts), (row) => `${row["share"]} ${row["lane"]}`);
		for (const lane of open) lane.add(found.get(lane.name) ?? []);
		open = open.filter((lane) => lane.wantsMore);
	}
	const rows = lanes.flatMap((lane) => lane.rows());
	return {
		rows,
		affected: rows.length
	};
}
/** The lanes of the shares in which there is anything: usually none, and that is cheap to see. */
async function occupied(sql, query, shares) {
	return (await ask(query, shares.map(({ table, scope, lanes }, index) => ({
		text: sql.look[table].occupied(index),
		params: [
			bytes(scope),
			bytes(scope),
			JSON.stringify(lanes)
		]
	})))).flatMap((row) => {
		const share = shares[Number(row["share"])];
		const there = {
			loose: asBoolean(row["loose"]),
			keyed: asBoolean(row["keyed"])
		};
		if (share === void 0 || !(there.loose || there.keyed)) return [];
		return [new Lane(sql.look[share.table], share, Number(row["share"]), Number(row["lane"]), there)];
	});
}
/** The answers to many parts, in as few statements as the server likes. */
async function ask(query, parts) {
	const rows = [];
	for (let from = 0; from < parts.length; from += MAX_PARTS) {
		const some = parts.slice(from, from + MAX_PARTS);
		const params = some.flatMap((part) => part.params);
		rows.push(...(await query({
			text: some.map((part) => part.text).join(" union all "),
			params
		})).rows);
	}
	return rows;
}
/** What was found in one lane, and what to ask next. */
var Lane = class {
	name;
	#texts;
	#share;
	#index;
	#where;
	#loose = [];
	/** The rows of each key; keys in the order of their hashes, because every page begins behind the last one. */
	#keys = /* @__PURE__ */ new Map();
	#there;
	/** The key behind which the page was cut. */
	#cut;
	#asked = false;
	constructor(texts, share, index, lane, there) {
		this.name = `${index} ${lane}`;
		this.#texts = texts;
		this.#share = share;
		this.#index = index;
		this.#where = [bytes(share.scope), lane];
		this.#there = there;
		this.#cut = share.after.get(lane);
	}
	get wantsMore() {
		return this.#cut !== void 0 && (this.#keys.size < pageOf(this.#share) || this.#runLeft() > 0);
	}
	parts() {
		const full = this.#keys.size >= pageOf(this.#share);
		const parts = [this.#asked ? this.#runPart() : this.#loosePart(), this.#there.keyed && !full ? this.#keysPart() : void 0];
		this.#asked = true;
		return parts.filter((part) => part !== void 0);
	}
	add(rows) {
		const fresh = [];
		for (const row of rows) if (row["key"] === null) this.#loose.push(row);
		else (this.#keys.get(asText(row["key"])) ?? fresh).push(row);
		if (this.#keys.size < pageOf(this.#share)) this.#addKeys(fresh);
	}
	/** A key that the end of the answer may have cut is left for the next page, unless it is the only one. */
	#addKeys(rows) {
		const found = inOrder(Map.groupBy(rows, (row) => asText(row["key"])));
		const cut = rows.length === this.#limit;
		if (cut && found.length > 1) found.pop();
		const room = pageOf(this.#share) - this.#keys.size;
		for (const [key, own] of found.slice(0, room)) this.#keys.set(key, own);
		this.#cut = cut || found.length > room ? [...this.#keys.keys()].at(-1) : void 0;
	}
	rows() {
		const keyed = [...this.#keys].flatMap(([key, rows]) => firstRows(rows).map((row, nth) => ({
			...row,
			more: key === this.#cut && nth === 0
		})));
		return [...this.#loose, ...keyed];
	}
	get #limit() {
		return 2 * pageOf(this.#share);
	}
	#loosePart() {
		const { table, types } = this.#share;
		if (!this.#there.loose || table === "inbox" && types.length === 0) return void 0;
		const named = table === "inbox" ? types : [];
		return {
			text: this.#texts.loose(this.#index, named.length, pageOf(this.#share) + 1),
			params: [...this.#where, ...named.map(text)]
		};
	}
	#keysPart() {
		if (this.#cut === void 0) return {
			text: this.#texts.firstKeys(this.#index, this.#limit),
			params: this.#where
		};
		const params = [...this.#where, hashOf(this.#cut)];
		return {
			text: this.#texts.nextKeys(this.#index, this.#limit),
			params
		};
	}
	/** The rows of the last key that the page has cut off. */
	#runPart() {
		const left = this.#runLeft();
		if (left <= 0 || this.#cut === void 0) return void 0;
		const last = this.#keys.get(this.#cut)?.at(-1);
		const params = [
			...this.#where,
			hashOf(this.#cut),
			String(last?.["seq"])
		];
		return {
			text: this.#texts.run(this.#index, left),
			params
		};
	}
	/** Only a key with as many rows as were asked for has been cut. */
	#runLeft() {
		const rows = this.#keys.get(this.#cut ?? "") ?? [];
		return rows.length === this.#limit && isReady(rows[0]) ? RUN$1 - rows.length : 0;
	}
};
/** Keys by their hashes, their rows by seq: a union of ordered answers need not be in order. */
function inOrder(keys) {
	const hashed = [...keys].map(([key, rows]) => ({
		key,
		rows,
		hash: hashOf(key)
	}));
	const bySeq = (a, b) => compareSeq(String(a["seq"]), String(b["seq"]));
	return hashed.sort((a, b) => Buffer.compare(a.hash, b.hash)).map(({ key, rows }) => [key, rows.sort(bySeq)]);
}
/** The column `key_hash` of a key. */
function hashOf(key) {
	return createHash("sha256").update(text(key)).digest();
}
function isReady(row) {
	return !asBoolean(row["held"]) && Number(row["ms"]) <= 0;
}
/** Behind a row that cannot run now nothing else of its key can. */
function firstRows(rows) {
	return rows[0] !== void 0 && isReady(rows[0]) ? rows.slice(0, RUN$1) : rows.slice(0, 1);
}
// src/stores/mysql/publish.ts
/**
* The procedure for programs in other languages: it writes the row that `hapax.publish` would write. Everything in it is
* computed as in `src/core`: identity.ts, lanes.ts, message.ts and uuid.ts; a test compares them. A procedure, because a
* function needs log_bin_trust_function_creators; no double quotes around texts and no backslashes, because modes of the
* server change what they mean.
*/
function publishProcedure(prefix) {
	return [`drop procedure if exists ${prefix}publish`, `create procedure ${prefix}publish(
  in p_source longtext character set utf8mb4,
  in p_type longtext character set utf8mb4,
  in p_data longtext character set utf8mb4,
  in p_key longtext character set utf8mb4,
  in p_id longtext character set utf8mb4,
  in p_options longtext character set utf8mb4,
  out published_id longtext character set utf8mb4
) modifies sql data sql security invoker
begin
  declare v_now datetime(6) default utc_timestamp(6);
  declare v_micros bigint default timestampdiff(microsecond, '1970-01-01', v_now);
  declare v_id longblob;
  declare v_relay longblob default 'default';
  declare v_delay double default 0;
  declare v_headers longtext character set utf8mb4;
  declare v_values longtext character set utf8mb4;
  declare v_attributes longblob;
  declare v_digest char(64) character set ascii;
  declare v_message_key binary(16);
  declare v_lane int;
  declare v_bytes bigint;
  declare v_index int default 0;
  declare v_problem varchar(128) character set utf8mb4;

  if p_options is not null then
    if not json_valid(p_options) or json_type(p_options) <> 'OBJECT' then
      signal sqlstate '22023' set message_text = 'expected options to be null or a JSON object';
    end if;
    if json_length(p_options) <> json_contains_path(p_options, 'one', '$.subject')
      + json_contains_path(p_options, 'one', '$.correlationId') + json_contains_path(p_options, 'one', '$.causationId')
      + json_contains_path(p_options, 'one', '$.traceparent') + json_contains_path(p_options, 'one', '$.tracestate')
      + json_contains_path(p_options, 'one', '$.headers') + json_contains_path(p_options, 'one', '$.delayMs')
      + json_contains_path(p_options, 'one', '$.relay') then
      signal sqlstate '22023' set message_text =
        'expected options to be subject, correlationId, causationId, traceparent, tracestate, headers, delayMs and relay';
    end if;
    set v_problem = case
      when json_type(json_extract(p_options, '$.subject')) <> 'STRING' then 'subject'
      when json_type(json_extract(p_options, '$.correlationId')) <> 'STRING' then 'correlationId'
      when json_type(json_extract(p_options, '$.causationId')) <> 'STRING' then 'causationId'
      when json_type(json_extract(p_options, '$.traceparent')) <> 'STRING' then 'traceparent'
      when json_type(json_extract(p_options, '$.tracestate')) <> 'STRING' then 'tracestate'
      when json_type(json_extract(p_options, '$.relay')) <> 'STRING' then 'relay' end;
    if v_problem is not null then
      set v_problem = concat('expected ', v_problem, ' to be a text');
      signal sqlstate '22023' set message_text = v_problem;
    end if;
    if json_type(json_extract(p_options, '$.delayMs')) not in ('INTEGER', 'DOUBLE', 'DECIMAL', 'UNSIGNED INTEGER') then
      signal sqlstate '22023' set message_text = 'expected delay_ms to be a number';
    end if;
    set v_relay = coalesce(json_unquote(json_extract(p_options, '$.relay')), 'default');
    set v_delay = coalesce(json_extract(p_options, '$.delayMs') + 0, 0);
    set v_headers = json_extract(p_options, '$.headers');
    if json_type(v_headers) <> 'OBJECT' then
      signal sqlstate '22023' set message_text = 'expected headers to be a JSON object of texts';
    end if;
    set v_values = json_extract(v_headers, '$.*');
    while v_index < coalesce(json_length(v_values), 0) do
      if json_type(json_extract(v_values, concat('$[', v_index, ']'))) <> 'STRING' then
        signal sqlstate '22023' set message_text = 'expected headers to be a JSON object of texts';
      end if;
      set v_index = v_index + 1;
    end while;
  end if;

  -- A UUIDv7 whose twelve bits after the version count within the millisecond, so that ids rise.
  set v_id = coalesce(p_id, insert(insert(insert(insert(lower(concat(
    lpad(hex(v_micros div 1000), 12, '0'), '7', lpad(hex(v_micros % 1000 * 4096 div 1000), 3, '0'),
    substr('89ab', 1 + floor(rand() * 4), 1), left(sha2(concat(uuid(), rand(), connection_id()), 256), 15))),
    21, 0, '-'), 17, 0, '-'), 13, 0, '-'), 9, 0, '-'));
  set v_problem = case
    when p_source is null or octet_length(p_source) not between 1 and 2048
      then 'expected source to be a text of 1 to 2048 bytes'
    when p_type is null or octet_length(p_type) not between 1 and 255
      then 'expected type to be a text of 1 to 255 bytes'
    when octet_length(v_id) not between 1 and 2048 then 'expected id to be null or a text of 1 to 2048 bytes'
    when octet_length(p_key) not between 1 and 2048 then 'expected key to be null or a text of 1 to 2048 bytes'
    when octet_length(v_relay) not between 1 and 255 then 'expected relay to be null or a text of 1 to 255 bytes'
    when not v_delay between 0 and 3153600000000 then 'expected delay_ms to be null or a number from 0 to 100 years'
    when p_key is not null and v_delay > 0
      then 'expected delay_ms to be absent on a message with a key, because it would hold up what comes after it'
    when p_data is null then 'expected data to be the text of a JSON value, or empty, got null'
    when p_data <> cast('' as binary) and not json_valid(p_data)
      then 'expected data to be the text of a JSON value, or empty' end;
  if v_problem is not null then
    signal sqlstate '22023' set message_text = v_problem;
  end if;

  set v_attributes = concat('{',
    coalesce(concat('"subject":', json_extract(p_options, '$.subject'), ','), ''),
    '"time":"', date_format(v_now, '%Y-%m-%dT%H:%i:%s.'), left(lpad(microsecond(v_now), 6, '0'), 3), 'Z"',
    ',"datacontenttype":"application/json"',
    coalesce(concat(',"correlationId":', json_extract(p_options, '$.correlationId')), ''),
    coalesce(concat(',"causationId":', json_extract(p_options, '$.causationId')), ''),
    coalesce(concat(',"traceparent":', json_extract(p_options, '$.traceparent')), ''),
    coalesce(concat(',"tracestate":', json_extract(p_options, '$.tracestate')), ''),
    coalesce(concat(',"headers":', v_headers), ''),
    '}');
  set v_bytes = octet_length(p_data) + octet_length(v_attributes);
  if v_bytes > 1048576 then
    set v_problem = concat('expected a message of at most 1048576 bytes, got ', v_bytes);
    signal sqlstate '22023' set message_text = v_problem;
  end if;

  set v_digest = sha2(concat(
    octet_length(p_source), ':', cast(p_source as binary), ',', octet_length(v_id), ':', v_id, ','), 256);
  set v_message_key = unhex(concat(
    if(octet_length(v_id) = 36 and convert(v_id using latin1)
      regexp '^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-7[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$',
      convert(concat(substr(v_id, 1, 8), substr(v_id, 10, 4)) using ascii), '000000000000'),
    '8', substr(v_digest, 2, 3),
    substr('89ab89ab89ab89ab', conv(substr(v_digest, 5, 1), 16, 10) + 1, 1), substr(v_digest, 6, 15)));
  set v_lane = conv(if(p_key is null, right(hex(v_message_key), 2), left(sha2(p_key, 256), 2)), 16, 10) % 64;

  -- A text that begins with U+0001 means an escaped one in the tables.
  insert into ${prefix}outbox
    (relay, message_key, source, id, type, \`key\`, attributes, data, fingerprint, created_at, available_at, lane)
  values (v_relay, v_message_key,
    if(left(p_source, 1) = x'01' or locate(x'00', p_source) > 0,
      concat(x'01', replace(replace(p_source, '%', '%25'), x'00', '%00')), p_source),
    if(left(v_id, 1) = x'01' or locate(x'00', v_id) > 0,
      concat(x'01', replace(replace(v_id, '%', '%25'), x'00', '%00')), v_id),
    if(left(p_type, 1) = x'01' or locate(x'00', p_type) > 0,
      concat(x'01', replace(replace(p_type, '%', '%25'), x'00', '%00')), p_type),
    if(left(p_key, 1) = x'01' or locate(x'00', p_key) > 0,
      concat(x'01', replace(replace(p_key, '%', '%25'), x'00', '%00')), p_key),
    v_attributes, p_data, unhex(left(sha2(p_data, 256), 16)), v_now,
    timestampadd(microsecond, v_delay * 1000, v_now), v_lane);
  set published_id = convert(v_id using utf8mb4);
end`];
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
	}, {
		version: 2,
		name: "workers, relays and order",
		sql: [
			...once(`${prefix}inbox`, "key_hash", `alter table ${prefix}inbox
  add column held_at datetime(6),
  add column crashes int not null default 0,
  add column lane tinyint unsigned not null default 0,
  add column ordered tinyint not null default 0,
  add column bytes int unsigned generated always as (length(data)) stored,
  add column key_hash binary(32) generated always as (if(ordered = 1, unhex(sha2(\`key\`, 256)), null)) stored,
  add index inbox_lane (consumer, lane, key_hash, available_at, seq),
  add index inbox_key (consumer, lane, key_hash, seq)`),
			...once(`${prefix}outbox`, "key_hash", `alter table ${prefix}outbox
  add column held_at datetime(6),
  add column attempts int not null default 0,
  add column lane tinyint unsigned not null default 0,
  add column error longblob,
  add column bytes int unsigned generated always as (length(data)) stored,
  add column key_hash binary(32) generated always as (unhex(sha2(\`key\`, 256))) stored,
  add index outbox_lane (relay, lane, key_hash, available_at, seq),
  add index outbox_key (relay, lane, key_hash, seq)`),
			...once(`${prefix}failed`, "origin", `alter table ${prefix}failed
  add column held_seq bigint,
  add column lane tinyint unsigned not null default 0,
  add column ordered tinyint not null default 0,
  add column origin varbinary(16) not null default 'inbox',
  add column error_hash varbinary(64) not null default '',
  add column replaced_by varbinary(6148),
  drop index failed_message,
  add unique index failed_message (consumer, message_key, fingerprint, origin)`),
			...once(`${prefix}subscriptions`, "ordered", `alter table ${prefix}subscriptions add column ordered tinyint not null default 0`),
			`create table if not exists ${prefix}workers (
  id varbinary(255) not null primary key,
  started_at datetime(6) not null,
  heartbeat_at datetime(6) not null,
  ttl_ms int not null,
  alone tinyint not null default 0,
  name varbinary(6148) not null,
  serves longblob not null,
  in_hand longblob not null
) engine = innodb row_format = dynamic`,
			`create table if not exists ${prefix}relays (
  name varbinary(255) not null primary key,
  destination varbinary(6148) not null,
  recorded_at datetime(6) not null
) engine = innodb row_format = dynamic`,
			`create table if not exists ${prefix}sent (
  seq bigint not null auto_increment primary key,
  sent_at datetime(6) not null,
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
			`create table if not exists ${prefix}audit (
  seq bigint not null auto_increment primary key,
  at datetime(6) not null,
  action varbinary(32) not null,
  actor varbinary(6148) not null,
  origin varbinary(16),
  consumer varbinary(255),
  source varbinary(6148),
  id varbinary(6148),
  type varbinary(6148),
  note longblob
) engine = innodb row_format = dynamic`,
			...publishProcedure(prefix)
		]
	}];
}
/** Changes a table unless it has this column already; MySQL has no IF NOT EXISTS for columns. One ALTER is all or nothing. */
function once(table, column, alter) {
	return [
		`set @hapax_change = if(exists(${`select 1 from information_schema.columns
where table_schema = database() and table_name = '${table}' and column_name = '${column}'`}), 'do 0', '${alter.replaceAll("'", "''")}')`,
		"prepare hapax_change from @hapax_change",
		"execute hapax_change",
		"deallocate prepare hapax_change"
	];
}
// src/stores/mysql/checkup.ts
const plain$5 = (text) => ({
	text,
	params: []
});
/** Transactions that are open longer than this make every read slower. */
const LONG_MINUTES = 5;
/** InnoDB tells times in the zone of the system, whatever that of the session is. */
const SYSTEM_NOW = `coalesce(convert_tz(now(), @@session.time_zone, 'SYSTEM'), now())`;
/** What the statements of hapax are made for. */
const PACKET = 16777216;
/** What `doctor` looks at on MariaDB and MySQL. */
function checks(prefix) {
	return [
		{
			check: "server",
			statement: plain$5("select version() as version"),
			judge: server
		},
		{
			check: "settings",
			statement: plain$5(`
show global variables where variable_name in ('innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin',
  'innodb_rollback_on_timeout', 'innodb_doublewrite', 'read_only', 'innodb_read_only', 'max_connections')`),
			judge: globalSettings
		},
		{
			check: "settings",
			statement: plain$5(`
show session variables where variable_name in ('wait_timeout', 'sql_mode', 'tx_isolation', 'transaction_isolation',
  'max_allowed_packet', 'autocommit')`),
			judge: sessionSettings
		},
		{
			check: "connections",
			statement: plain$5(`
show global status where variable_name in ('Threads_connected', 'Max_used_connections', 'Connection_errors_max_connections')`),
			judge: connections
		},
		clockCheck(plain$5(`select timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) / 1000 as ms`)),
		{
			check: "long transactions",
			statement: plain$5(`
select count(*) as count, max(timestampdiff(minute, trx_started, ${SYSTEM_NOW})) as minutes,
  group_concat(trx_mysql_thread_id) as ids
from information_schema.innodb_trx
where trx_started < ${SYSTEM_NOW} - interval ${LONG_MINUTES} minute and trx_mysql_thread_id <> connection_id()`),
			judge: longTransactions
		},
		{
			check: "prepared transactions",
			statement: plain$5("xa recover"),
			judge: prepared
		},
		{
			check: "tables",
			statement: {
				text: `
select table_name as name, table_rows as estimate, data_length + index_length as bytes
from information_schema.tables where table_schema = database() and left(table_name, ${prefix.length}) = ?
order by 3 desc`,
				params: [bytes(prefix)]
			},
			judge: (rows) => ok$2(rows.map((row) => tableSize(row, prefix)).join(", "))
		},
		{
			check: "schema drift",
			statement: {
				text: `
select table_name as name, column_name as part from information_schema.columns
where table_schema = database() and left(table_name, ${prefix.length}) = ?
union
select table_name, index_name from information_schema.statistics
where table_schema = database() and left(table_name, ${prefix.length}) = ?`,
				params: [bytes(prefix), bytes(prefix)]
			},
			judge: (rows) => schemaVerdict(expectedTables(migrations$1(prefix), (table) => table), new Set(rows.map((row) => `${asText(row["name"])}.${asText(row["part"])}`)))
		}
	];
}
function server([row]) {
	const version = asText(row?.["version"]);
	const maria = /mariadb/i.test(version);
	const [major = 0, minor = 0] = version.split(".").map((part) => Number.parseInt(part, 10));
	const fine = maria ? major > 10 || major === 10 && minor >= 6 : major >= 8;
	const name = `${maria ? "MariaDB" : "MySQL"} ${version}`;
	return fine ? ok$2(name) : error(name, "Use MariaDB 10.6 or MySQL 8.0, or newer.");
}
/** SHOW answers with rows of a name and a value. */
function variables(rows) {
	return new Map(rows.map((row) => [asText(row["Variable_name"]).toLowerCase(), asText(row["Value"])]));
}
function globalSettings(rows) {
	const found = variables(rows);
	const is = (name, ...values) => values.includes(found.get(name)?.toLowerCase() ?? "(not there)");
	const verdicts = [is("innodb_flush_log_at_trx_commit", "1") ? ok$2("innodb_flush_log_at_trx_commit is 1") : error(`innodb_flush_log_at_trx_commit is ${found.get("innodb_flush_log_at_trx_commit")}: what was acknowledged may be lost in a crash`, "Set innodb_flush_log_at_trx_commit = 1.")];
	if (is("log_bin", "on", "1") && !is("sync_binlog", "1")) verdicts.push(warning(`sync_binlog is ${found.get("sync_binlog")}: after a crash, replicas may have less than this server acknowledged`, "Set sync_binlog = 1."));
	if (is("innodb_doublewrite", "off", "0")) verdicts.push(warning("innodb_doublewrite is off: a crash may destroy pages, unless the file system cannot tear them", "Set innodb_doublewrite = on."));
	if (is("read_only", "on", "1", "no_lock", "no_lock_no_admin") || is("innodb_read_only", "on", "1")) verdicts.push(error("the server is read-only", "Connect to the primary."));
	const rollback = is("innodb_rollback_on_timeout", "on", "1") ? "the whole transaction" : "one statement only";
	return [...verdicts, ok$2(`a lock timeout rolls back ${rollback}; hapax rolls back itself either way`)];
}
function sessionSettings(rows) {
	const found = variables(rows);
	const isolation = found.get("transaction_isolation") ?? found.get("tx_isolation") ?? "unknown";
	const waits = Number(found.get("wait_timeout"));
	const packet = Number(found.get("max_allowed_packet"));
	return [
		/read-uncommitted/i.test(isolation) ? error("transactions read what is not committed (READ-UNCOMMITTED)", "Set transaction_isolation to READ-COMMITTED or higher.") : ok$2(`transactions are ${isolation}`),
		/strict_(trans|all)_tables/i.test(found.get("sql_mode") ?? "") ? ok$2("sql_mode is strict") : warning("sql_mode is not strict: values that do not fit are cut silently, also in your own tables", "Add STRICT_TRANS_TABLES to sql_mode."),
		waits >= 60 ? ok$2(`idle connections are closed after ${waits} s`) : warning(`idle connections are closed after ${waits} s: a handler that waits for something else for so long loses its transaction`, "Raise wait_timeout to at least 60."),
		packet >= PACKET ? ok$2(`max_allowed_packet is ${size(packet)}`) : warning(`max_allowed_packet is ${size(packet)}: a message of more than ${size(Math.floor(packet / 2))} cannot be written, because bytes travel as two digits each`, `Raise max_allowed_packet to ${size(PACKET)} or more.`)
	];
}
function connections(rows) {
	const found = variables(rows);
	const refused = Number(found.get("connection_errors_max_connections") ?? 0);
	const message = `${found.get("threads_connected")} connections are in use, ${found.get("max_used_connections")} at most so far`;
	if (refused === 0) return ok$2(message);
	return warning(`${message}; ${refused} were refused because there were too many`, "Make the pools smaller, or raise max_connections.");
}
function longTransactions([row]) {
	const count = Number(row?.["count"]);
	if (count === 0) return ok$2(`no transaction is open for more than ${LONG_MINUTES} minutes`);
	return warning(`${count} transactions are open for more than ${LONG_MINUTES} minutes, one for ${Number(row?.["minutes"])} (connection ${asText(row?.["ids"])})`, "While they are open, old versions of rows cannot be removed, and their locks stay. Find out who left them open, or end them with KILL.");
}
function prepared(rows) {
	if (rows.length === 0) return ok$2("there is none");
	return warning(`${rows.length} prepared transactions wait for their end`, "They hold locks. End them: XA COMMIT or XA ROLLBACK (XA RECOVER lists them).");
}
function tableSize(row, prefix) {
	return `${asText(row["name"]).slice(prefix.length)} ${size(Number(row["bytes"]))} (about ${Number(row["estimate"])} rows)`;
}
// src/stores/mysql/operator.ts
const NO_PARAMS$4 = [];
const plain$4 = (each) => ({
	text: each,
	params: NO_PARAMS$4
});
/** The statements of the tools that people use, on MariaDB and MySQL with one prefix, each valid on both. */
function operator$1(prefix) {
	const sql = statements$2(prefix);
	return {
		failedList: ({ before, limit, ...where }) => ({
			text: sql.failedList(limit),
			params: [...failedParams$1(where), before ?? MAX_SEQ$1]
		}),
		failedCount: (where) => ({
			text: sql.failedCount,
			params: failedParams$1(where)
		}),
		failedGroups: (where, limit) => ({
			text: sql.failedGroups(limit),
			params: failedParams$1(where)
		}),
		failedSeqs: (where, after, limit) => ({
			text: sql.failedSeqs(limit),
			params: [...failedParams$1(where), after ?? "0"]
		}),
		failedGet: (seq) => ({
			text: sql.failedGet,
			params: [seq]
		}),
		failedLock: (seq, replaced) => ({
			text: sql.failedLock,
			params: [seq, replaced ? 1 : 0]
		}),
		copyBack: (seq, origin) => ({
			text: sql.copyBack[origin],
			params: [seq]
		}),
		copyEdited: (seq, origin, message) => ({
			text: sql.copyEdited[origin],
			params: [...columns$2(message), seq]
		}),
		unhold: (origin, seq) => ({
			text: sql.unhold[origin],
			params: [seq]
		}),
		replaceHeld: (origin, seq, message) => ({
			text: sql.replaceHeld[origin],
			params: [...columns$2(message), seq]
		}),
		deleteHeld: (origin, seq) => ({
			text: sql.deleteHeld[origin],
			params: [seq]
		}),
		deleteFailed: (seq) => ({
			text: sql.deleteFailed,
			params: [seq]
		}),
		failedReplaced: (seq, id) => ({
			text: sql.failedReplaced,
			params: [text(id), seq]
		}),
		insertReceipt: (consumer, token, message) => ({
			text: sql.insertReceipt,
			params: receipt$1(consumer, token, message)
		}),
		auditFailed: (seq, { action, actor, note }) => ({
			text: sql.auditFailed,
			params: [
				bytes(action),
				text(actor),
				textOrNull(note),
				seq
			]
		}),
		auditOther: ({ action, actor, note }, { origin, consumer, source, id, type }) => ({
			text: sql.auditOther,
			params: [
				bytes(action),
				text(actor),
				...[
					note,
					origin,
					consumer,
					source,
					id,
					type
				].map(textOrNull)
			]
		}),
		heldKeys: (limit) => plain$4(sql.heldKeys(limit)),
		lockHeld: (origin, scope, key) => ({
			text: sql.lockHeld[origin],
			params: [bytes(scope), text(key)]
		}),
		heldToFailed: (origin, seq) => ({
			text: sql.heldToFailed[origin],
			params: [seq]
		}),
		failedLetGo: (origin, heldSeq) => ({
			text: sql.failedLetGo,
			params: [bytes(origin), heldSeq]
		}),
		moveRelay: (name, destination) => ({
			text: sql.moveRelay,
			params: [bytes(name), text(destination)]
		}),
		subscriptions: plain$4(sql.subscriptions),
		lockSubscriptions: (consumer) => ({
			text: sql.lockSubscriptions,
			params: [bytes(consumer)]
		}),
		unsubscribe: (consumer) => ({
			text: sql.unsubscribe,
			params: [bytes(consumer)]
		}),
		sentList: ({ before, limit, ...where }) => ({
			text: sql.sentList(limit),
			params: [...sentParams$1(where), before ?? MAX_SEQ$1]
		}),
		sentSeqs: (where, after, limit) => ({
			text: sql.sentSeqs(limit),
			params: [...sentParams$1(where), after ?? "0"]
		}),
		sentGet: (seq) => ({
			text: sql.sentGet,
			params: [seq]
		}),
		republish: (seq, lane) => ({
			text: sql.republish,
			params: [lane, seq]
		}),
		cleanup: (query, step, olderThanMs, limit) => cleaned$1(sql, query, step, olderThanMs, limit),
		cleanable: (consumer, olderThanMs) => ({
			text: sql.cleanable,
			params: [bytes(consumer), microseconds(olderThanMs)]
		}),
		checkup: (query) => lookAt$1(query, checks(prefix)),
		statusConsumers: plain$4(sql.statusConsumers),
		statusRelays: plain$4(sql.statusRelays),
		trace: (id) => sql.trace.map((each) => ({
			text: each,
			params: [text(id)]
		}))
	};
}
const MAX_SEQ$1 = "9223372036854775807";
function textOrNull(value) {
	return value === void 0 ? null : text(value);
}
function microsecondsOrNull(ms) {
	return ms === void 0 ? null : microseconds(ms);
}
/** The parameters of `FAILED_WHERE`. */
function failedParams$1(where) {
	const { origin, consumer, type, reason, errorHash, olderThanMs, newerThanMs, replaced } = where;
	return [
		...[
			origin,
			consumer,
			type,
			reason,
			errorHash
		].map(textOrNull),
		microsecondsOrNull(olderThanMs),
		microsecondsOrNull(newerThanMs),
		replaced ? 1 : 0
	];
}
/** The parameters of `SENT_WHERE`. */
function sentParams$1({ relay, type, olderThanMs, newerThanMs }) {
	return [
		textOrNull(relay),
		textOrNull(type),
		microsecondsOrNull(olderThanMs),
		microsecondsOrNull(newerThanMs)
	];
}
/**
* Reads a page without locks, then deletes by key what it found. One statement would lock what it looks up in the inbox,
* and wait for every handler. What was finished when it was read stays finished: nothing comes back without its receipt.
*/
async function cleaned$1(sql, query, step, olderThanMs, limit) {
	const ago = microseconds(olderThanMs);
	if (step.kind === "receipts") {
		const { after = NO_UUID$1 } = step;
		const params = [
			ago,
			bytes(step.consumer),
			uuidBytes(after)
		];
		const { rows } = await query({
			text: sql.receiptPage(limit),
			params
		});
		return {
			deleted: await deleteAll(query, rows.filter((row) => asBoolean(row["old"])).map((row) => uuidBytes(asUuid(row["message_key"]))), (part) => ({
				text: sql.deleteReceipts(part.length),
				params: [bytes(step.consumer), ...part]
			})),
			after: rows.length < limit ? void 0 : asUuid(rows.at(-1)?.["message_key"])
		};
	}
	const table = step.kind;
	const params = table === "sent" ? [ago, bytes(step.relay)] : [ago];
	const { rows } = await query({
		text: sql.page[table](limit),
		params
	});
	const old = rows.filter((row) => asBoolean(row["old"])).map((row) => String(row["seq"]));
	return {
		deleted: await deleteAll(query, old, (part) => ({
			text: sql.deleteRows[table](part.length),
			params: part
		})),
		after: old.length < limit ? void 0 : old.at(-1)
	};
}
const NO_UUID$1 = "00000000-0000-0000-0000-000000000000";
async function deleteAll(query, values, statement) {
	let deleted = 0;
	for (const part of chunks$1(values)) deleted += (await query(statement(part))).affected;
	return deleted;
}
const MANY = (count) => Array(count).fill("?").join(", ");
/** A seq is text in JavaScript; compared as text, the server would round it. */
const SEQ$1 = "cast(? as signed)";
const SEQS$1 = (count) => Array(count).fill(SEQ$1).join(", ");
const LIMIT = (limit) => `limit ${Math.trunc(limit)}`;
/** By key, even where a table is so small that a scan seems cheaper: a scan locks the rows of others, and deadlocks. */
const BY_KEY = "force index (primary)";
const MS = (time) => `timestampdiff(microsecond, '1970-01-01', ${time}) / 1000`;
/** UTC whatever the time zone of the session is. */
const NOW$1 = "utc_timestamp(6)";
const AGO = (microseconds) => `${NOW$1} - interval ${microseconds} microsecond`;
const COLUMNS$1 = "message_key, source, id, type, `key`, attributes, data, fingerprint";
const MESSAGE$2 = "m.message_key, m.source, m.id, m.type, m.`key`, m.attributes, m.data, m.fingerprint";
const FAILED$1 = `cast(m.seq as char) as seq, m.origin, m.consumer, ${MESSAGE$2}, m.attempts, m.reason, m.error, m.error_hash,
  ${MS("m.failed_at")} as failed_at, cast(m.held_seq as char) as held_seq, m.replaced_by`;
const FAILED_WHERE$1 = `(select ? as origin_, ? as consumer_, ? as type_, ? as reason_, ? as hash_, cast(? as signed) as older_,
  cast(? as signed) as newer_, cast(? as signed) as replaced_) as f
where (f.origin_ is null or m.origin = f.origin_) and (f.consumer_ is null or m.consumer = f.consumer_)
  and (f.type_ is null or m.type = f.type_) and (f.reason_ is null or m.reason = f.reason_)
  and (f.hash_ is null or m.error_hash = f.hash_)
  and (f.older_ is null or m.failed_at < ${AGO("f.older_")}) and (f.newer_ is null or m.failed_at >= ${AGO("f.newer_")})
  and (m.replaced_by is not null) = f.replaced_`;
const SENT_WHERE$1 = `(select ? as relay_, ? as type_, cast(? as signed) as older_, cast(? as signed) as newer_) as f
where (f.relay_ is null or m.relay = f.relay_) and (f.type_ is null or m.type = f.type_)
  and (f.older_ is null or m.sent_at < ${AGO("f.older_")}) and (f.newer_ is null or m.sent_at >= ${AGO("f.newer_")})`;
const UNKNOWN_ERROR$1 = `'{"name":"Error","message":"held for a reason that is not known any more"}'`;
/** Every statement, whole and by name. */
function statements$2(prefix) {
	const table = {
		receipts: `${prefix}receipts`,
		inbox: `${prefix}inbox`,
		outbox: `${prefix}outbox`,
		failed: `${prefix}failed`,
		sent: `${prefix}sent`,
		audit: `${prefix}audit`,
		relays: `${prefix}relays`,
		subscriptions: `${prefix}subscriptions`
	};
	const { receipts, inbox, outbox, failed, sent, audit, relays, subscriptions } = table;
	const both = (each) => ({
		inbox: each("inbox"),
		outbox: each("outbox")
	});
	const counts = {
		inbox: "attempts = 0, lost = 0, starts = 0, crashes = 0",
		outbox: "attempts = 0"
	};
	const scope = {
		inbox: "consumer",
		outbox: "relay"
	};
	/** A receipt stays while the inbox or the failed store has its message. */
	const finished = `
  not exists (select 1 from ${inbox} as i where i.message_key = r.message_key and i.consumer = r.consumer)
  and not exists (select 1 from ${failed} as f
    where f.consumer = r.consumer and f.message_key = r.message_key and f.origin = 'inbox')`;
	return {
		failedList: (limit) => `
select ${FAILED$1} from ${failed} as m join ${FAILED_WHERE$1} and m.seq < ${SEQ$1}
order by m.seq desc ${LIMIT(limit)}`,
		failedCount: `select count(*) as count from ${failed} as m join ${FAILED_WHERE$1}`,
		failedGroups: (limit) => `
select g.origin, g.consumer, g.type, g.reason, g.error_hash, g.count, g.first_at, g.last_at, cast(g.seq as char) as seq,
  newest.error
from (
  select m.origin, m.consumer, m.type, m.reason, m.error_hash, count(*) as count,
    ${MS("min(m.failed_at)")} as first_at, ${MS("max(m.failed_at)")} as last_at, max(m.seq) as seq
  from ${failed} as m join ${FAILED_WHERE$1}
  group by m.origin, m.consumer, m.type, m.reason, m.error_hash
  order by count(*) desc, max(m.seq) desc ${LIMIT(limit)}
) as g join ${failed} as newest on newest.seq = g.seq
order by g.count desc, g.seq desc`,
		failedSeqs: (limit) => `
select cast(m.seq as char) as seq from ${failed} as m join ${FAILED_WHERE$1} and m.seq > ${SEQ$1}
order by m.seq ${LIMIT(limit)}`,
		failedGet: `select ${FAILED$1} from ${failed} as m where m.seq = ${SEQ$1}`,
		failedLock: `
select cast(m.seq as char) as seq, m.origin, m.consumer,
  case when m.origin = 'outbox'
    then (select cast(o.seq as char) from ${outbox} as o where o.seq = m.held_seq and o.held_at is not null)
    else (select cast(i.seq as char) from ${inbox} as i where i.seq = m.held_seq and i.held_at is not null)
  end as held_seq
from ${failed} as m where m.seq = ${SEQ$1} and (m.replaced_by is null or cast(? as signed) = 1) for update`,
		copyBack: {
			inbox: `
insert into ${inbox} (consumer, ${COLUMNS$1}, lane, ordered, created_at, available_at)
select m.consumer, ${MESSAGE$2}, m.lane, m.ordered, ${NOW$1}, ${NOW$1} from ${failed} as m where m.seq = ${SEQ$1}`,
			outbox: `
insert into ${outbox} (relay, ${COLUMNS$1}, lane, created_at, available_at)
select m.consumer, ${MESSAGE$2}, m.lane, ${NOW$1}, ${NOW$1} from ${failed} as m where m.seq = ${SEQ$1}`
		},
		copyEdited: {
			inbox: `
insert into ${inbox} (${COLUMNS$1}, consumer, lane, ordered, created_at, available_at)
select ?, ?, ?, ?, ?, ?, ?, ?, m.consumer, m.lane, m.ordered, ${NOW$1}, ${NOW$1} from ${failed} as m where m.seq = ${SEQ$1}`,
			outbox: `
insert into ${outbox} (${COLUMNS$1}, relay, lane, created_at, available_at)
select ?, ?, ?, ?, ?, ?, ?, ?, m.consumer, m.lane, ${NOW$1}, ${NOW$1} from ${failed} as m where m.seq = ${SEQ$1}`
		},
		unhold: both((origin) => `
update ${table[origin]} set held_at = null, error = null, available_at = ${NOW$1}, ${counts[origin]} where seq = ${SEQ$1}`),
		replaceHeld: both((origin) => `
update ${table[origin]} set message_key = ?, source = ?, id = ?, type = ?, \`key\` = ?, attributes = ?, data = ?,
  fingerprint = ?, held_at = null, error = null, available_at = ${NOW$1}, ${counts[origin]}
where seq = ${SEQ$1}`),
		deleteHeld: both((origin) => `delete from ${table[origin]} where seq = ${SEQ$1}`),
		deleteFailed: `delete from ${failed} where seq = ${SEQ$1}`,
		failedReplaced: `update ${failed} set replaced_by = ?, held_seq = null where seq = ${SEQ$1}`,
		insertReceipt: `
insert into ${receipts} (consumer, message_key, token, fingerprint, source, id, type, taken_at)
values (?, ?, ?, ?, ?, ?, ?, ${NOW$1})`,
		auditFailed: `
insert into ${audit} (at, action, actor, note, origin, consumer, source, id, type)
select ${NOW$1}, ?, ?, ?, m.origin, m.consumer, m.source, m.id, m.type from ${failed} as m where m.seq = ${SEQ$1}`,
		auditOther: `
insert into ${audit} (at, action, actor, note, origin, consumer, source, id, type)
values (${NOW$1}, ?, ?, ?, ?, ?, ?, ?, ?)`,
		heldKeys: (limit) => `
select h.origin, h.scope, h.\`key\`, h.id, ${MS("h.held_at")} as held_at, cast(m.seq as char) as failed_seq,
  case when h.origin = 'outbox'
    then (select count(*) from ${outbox} as o
      where o.relay = h.scope and o.lane = h.lane and o.key_hash = h.key_hash and o.seq > h.seq)
    else (select count(*) from ${inbox} as i
      where i.consumer = h.scope and i.lane = h.lane and i.key_hash = h.key_hash and i.seq > h.seq)
  end as waiting
from (
  select 'inbox' as origin, seq, consumer as scope, lane, \`key\`, key_hash, id, held_at from ${inbox}
  where held_at is not null and \`key\` is not null
  union all
  select 'outbox', seq, relay, lane, \`key\`, key_hash, id, held_at from ${outbox}
  where held_at is not null and \`key\` is not null
  order by held_at, seq ${LIMIT(limit)}
) as h left join ${failed} as m on m.held_seq = h.seq and m.origin = h.origin
order by h.held_at, h.seq`,
		lockHeld: both((origin) => `
select cast(m.seq as char) as seq, m.source, m.id, m.type,
  (select cast(f.seq as char) from ${failed} as f where f.held_seq = m.seq and f.origin = '${origin}' limit 1) as failed_seq
from (select seq from ${table[origin]} where ${scope[origin]} = ? and \`key\` = ? and held_at is not null
    order by seq limit 1) as there
  straight_join ${table[origin]} as m ${BY_KEY} on m.seq = there.seq
where m.held_at is not null for update`),
		heldToFailed: {
			inbox: `
insert into ${failed} (origin, consumer, ${COLUMNS$1}, lane, ordered, attempts, reason, error, error_hash, failed_at)
select 'inbox', m.consumer, ${MESSAGE$2}, m.lane, m.ordered, m.attempts, 'permanent', coalesce(m.error, ${UNKNOWN_ERROR$1}), '',
  ${NOW$1}
from ${inbox} as m where m.seq = ${SEQ$1}
on duplicate key update ${failed}.message_key = ${failed}.message_key`,
			outbox: `
insert into ${failed} (origin, consumer, ${COLUMNS$1}, lane, ordered, attempts, reason, error, error_hash, failed_at)
select 'outbox', m.relay, ${MESSAGE$2}, m.lane, m.\`key\` is not null, m.attempts, 'permanent',
  coalesce(m.error, ${UNKNOWN_ERROR$1}), '', ${NOW$1}
from ${outbox} as m where m.seq = ${SEQ$1}
on duplicate key update ${failed}.message_key = ${failed}.message_key`
		},
		failedLetGo: `update ${failed} set held_seq = null where origin = ? and held_seq = ${SEQ$1}`,
		moveRelay: `
insert into ${relays} (name, destination, recorded_at) values (?, ?, ${NOW$1})
on duplicate key update destination = values(destination), recorded_at = values(recorded_at)`,
		subscriptions: `select consumer, type, ordered from ${subscriptions} order by consumer, type`,
		lockSubscriptions: `select type from ${subscriptions} where consumer = ? order by type for update`,
		unsubscribe: `delete from ${subscriptions} where consumer = ?`,
		sentList: (limit) => `
select cast(m.seq as char) as seq, m.relay, ${MS("m.sent_at")} as sent_at, ${MESSAGE$2}
from ${sent} as m join ${SENT_WHERE$1} and m.seq < ${SEQ$1} order by m.seq desc ${LIMIT(limit)}`,
		sentSeqs: (limit) => `
select cast(m.seq as char) as seq from ${sent} as m join ${SENT_WHERE$1} and m.seq > ${SEQ$1}
order by m.seq ${LIMIT(limit)}`,
		sentGet: `select cast(m.seq as char) as seq, m.relay, ${MESSAGE$2} from ${sent} as m where m.seq = ${SEQ$1}`,
		republish: `
insert into ${outbox} (relay, ${COLUMNS$1}, lane, created_at, available_at)
select m.relay, ${MESSAGE$2}, ?, ${NOW$1}, ${NOW$1} from ${sent} as m where m.seq = ${SEQ$1}`,
		receiptPage: (limit) => `
select r.message_key, (r.taken_at < ${AGO("?")} and ${finished}) as old
from ${receipts} as r ${BY_KEY} where r.consumer = ? and r.message_key > ? order by r.message_key ${LIMIT(limit)}`,
		deleteReceipts: (count) => `
delete r from ${receipts} as r ${BY_KEY} where r.consumer = ? and r.message_key in (${MANY(count)})`,
		cleanable: `
select count(*) as count from ${receipts} as r
where r.consumer = ? and r.taken_at < ${AGO("?")} and ${finished}`,
		page: {
			sent: (limit) => `
select cast(m.seq as char) as seq, m.sent_at < ${AGO("?")} as old from ${sent} as m ${BY_KEY}
where m.relay = ? order by m.seq ${LIMIT(limit)}`,
			audit: (limit) => `
select cast(m.seq as char) as seq, m.at < ${AGO("?")} as old from ${audit} as m ${BY_KEY}
order by m.seq ${LIMIT(limit)}`
		},
		deleteRows: {
			sent: (count) => `delete m from ${sent} as m ${BY_KEY} where m.seq in (${SEQS$1(count)})`,
			audit: (count) => `delete m from ${audit} as m ${BY_KEY} where m.seq in (${SEQS$1(count)})`
		},
		statusConsumers: `
select consumer, sum(receipts) as receipts, sum(waiting) as waiting, sum(retrying) as retrying, sum(held) as held,
  sum(failed) as failed
from (
  select consumer, count(*) as receipts, 0 as waiting, 0 as retrying, 0 as held, 0 as failed
  from ${receipts} group by consumer
  union all
  select consumer, 0, sum(held_at is null and attempts = 0), sum(held_at is null and attempts > 0), count(held_at), 0
  from ${inbox} group by consumer
  union all
  select consumer, 0, 0, 0, 0, count(*) from ${failed}
  where origin = 'inbox' and replaced_by is null group by consumer
) as counts
group by consumer order by consumer`,
		statusRelays: `
select relay, sum(waiting) as waiting, sum(held) as held, sum(failed) as failed, ${MS("min(oldest)")} as oldest,
  max(destination) as destination
from (
  select relay, count(*) - count(held_at) as waiting, count(held_at) as held, 0 as failed, min(created_at) as oldest,
    null as destination
  from ${outbox} group by relay
  union all
  select consumer, 0, 0, count(*), null, null from ${failed}
  where origin = 'outbox' and replaced_by is null group by consumer
  union all
  select name, 0, 0, 0, null, destination from ${relays}
) as counts
group by relay order by relay`,
		trace: [
			`select 'receipt' as place, consumer as scope, source, type, ${MS("taken_at")} as at from ${receipts} where id = ?`,
			`
select 'inbox' as place, consumer as scope, source, type, ${MS("created_at")} as at, attempts, \`key\`,
  ${MS("available_at")} as due_at, ${MS("held_at")} as held_at, error
from ${inbox} where id = ?`,
			`
select 'outbox' as place, relay as scope, source, type, ${MS("created_at")} as at, attempts, \`key\`,
  ${MS("held_at")} as held_at, error
from ${outbox} where id = ?`,
			`select 'sent' as place, relay as scope, source, type, ${MS("sent_at")} as at from ${sent} where id = ?`,
			`
select 'failed' as place, cast(m.seq as char) as seq, m.origin, m.consumer as scope, m.source, m.type,
  ${MS("m.failed_at")} as at, m.attempts, m.reason, cast(m.held_seq as char) as held_seq, m.replaced_by, m.error
from ${failed} as m where m.id = ?`,
			`
select 'audit' as place, m.consumer as scope, m.source, m.type, ${MS("m.at")} as at, m.action, m.actor, m.note
from ${audit} as m where m.id = ?`
		]
	};
}
// src/stores/mysql/sql.ts
const NO_PARAMS$3 = [];
const plain$3 = (text) => ({
	text,
	params: NO_PARAMS$3
});
/**
* The statements of MariaDB and MySQL with one prefix, each valid on both. Every text goes as bytes, so that neither the
* character set of the connection nor an SQL mode such as NO_BACKSLASH_ESCAPES can change it.
*
* `idleTimeoutMs` is not kept: both servers know it only as a setting of the session (`idle_transaction_timeout`,
* `wait_timeout`), which would cost round trips and stay behind in the user's pool.
*/
function dialect$1(prefix) {
	const sql = statements$3(prefix);
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
		delimiter: "//",
		migrationLock: [{
			text: sql.migrationLock,
			params: [prefix]
		}],
		migrationUnlock: [{
			text: sql.migrationUnlock,
			params: [prefix]
		}],
		migrationTable: plain$3(sql.migrationTable),
		migrationRows: plain$3(sql.migrationRows),
		migrationDone: (version, name, checksum) => ({
			text: sql.migrationDone,
			params: [
				version,
				bytes(name),
				bytes(checksum)
			]
		}),
		settings: () => [],
		guardSet: [plain$3("savepoint hapax")],
		guardRelease: [plain$3("release savepoint hapax")],
		guardCheck: [plain$3("release savepoint hapax"), plain$3("savepoint hapax")],
		guardRollback: [plain$3("rollback to savepoint hapax")],
		take: (consumer, token, messages, lockTimeoutMs) => [
			plain$3(lockWaitSet(lockTimeoutMs)),
			...inserts(sql.take(seconds$1(lockTimeoutMs)), sorted(messages).map((message) => receipt$1(consumer, token, message))),
			...chunks$1(messages).map((part) => ({
				text: sql.taken(part.length),
				params: [bytes(consumer), ...part.map((message) => uuidBytes(message.messageKey))]
			})),
			plain$3(LOCK_WAIT_RESET)
		],
		taken: (answers, token) => takenKeys$1(answers, token),
		receipts: (consumer, keys) => ({
			text: sql.receipts(keys.length),
			params: [bytes(consumer), ...keys.map(uuidBytes)]
		}),
		claim: (seqs, isolation) => ({
			text: (isolation === "serializable" ? sql.claimSerializable : sql.claim)(seqs.length),
			params: seqs
		}),
		lockAll: (seqs, lockTimeoutMs) => ({
			text: sql.lockAll(seqs.length, seconds$1(lockTimeoutMs)),
			params: seqs
		}),
		claimDeletes: false,
		blocked: (seqs) => ({
			text: sql.blocked(seqs.length),
			params: [...seqs, ...seqs]
		}),
		backend: (answers) => backendOf(answers),
		terminate: ([pid]) => ({
			text: sql.terminate,
			params: [Number(pid)]
		}),
		fate: () => void 0,
		deleteInbox: (seqs) => chunks$1(seqs).map((part) => ({
			text: sql.deleteInbox(part.length),
			params: part
		})),
		insertInbox: (rows) => inserts(sql.insertInbox, rows.map(inboxRow)),
		insertFailed: (rows) => inserts(sql.insertFailed, rows.map(({ consumer, message, ordered, attempts, reason, error }) => [
			bytes(consumer),
			...columns$2(message),
			attempts,
			bytes(reason),
			...errorColumns(error),
			...place$1(message, ordered)
		])),
		insertOutbox: (rows) => inserts(sql.insertOutbox, rows.map(({ relay, message, delayMs }) => [
			bytes(relay),
			...columns$2(message),
			microseconds(delayMs),
			laneOf(message, true)
		])),
		writeLocal: (executor, rows, token) => writeLocal(sql, executor, rows, token),
		look: (query, shares) => look$1(sql, query, shares),
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
		lockInbox: (seq) => ({
			text: sql.lockInbox,
			params: [seq]
		}),
		copyToFailed: ({ seq, attempts, reason, error, hold }) => ({
			text: sql.copyToFailed,
			params: [
				Number(hold),
				attempts,
				bytes(reason),
				...errorColumns(error),
				seq
			]
		}),
		holdInbox: ({ seq, attempts, error }) => ({
			text: sql.holdInbox,
			params: [
				attempts,
				bytes(JSON.stringify(error)),
				seq
			]
		}),
		inboxSeq: (consumer, messageKey) => ({
			text: sql.inboxSeq,
			params: [bytes(consumer), uuidBytes(messageKey)]
		}),
		outboxRows: (seqs) => ({
			text: sql.outboxRows(seqs.length),
			params: seqs
		}),
		copyToSent: (seqs) => ({
			text: sql.copyToSent(seqs.length),
			params: seqs
		}),
		deleteOutbox: (seqs) => ({
			text: sql.deleteOutbox(seqs.length),
			params: seqs
		}),
		postpone: (rows) => rows.map(({ seq, delayMs, error }) => ({
			text: sql.postpone,
			params: [
				microseconds(delayMs),
				bytes(JSON.stringify(error)),
				seq
			]
		})),
		lockOutbox: (seq) => ({
			text: sql.lockOutbox,
			params: [seq]
		}),
		refuseToFailed: ({ seq, reason, error, hold }) => ({
			text: sql.refuseToFailed,
			params: [
				Number(hold),
				bytes(reason),
				...errorColumns(error),
				seq
			]
		}),
		holdOutbox: ({ seq, error }) => ({
			text: sql.holdOutbox,
			params: [bytes(JSON.stringify(error)), seq]
		}),
		recordRelay: (name, destination) => ({
			text: sql.recordRelay,
			params: [bytes(name), text(destination)]
		}),
		relay: (name) => ({
			text: sql.relay,
			params: [bytes(name)]
		}),
		join: ({ id, name, ttlMs, serves }) => ({
			text: sql.join,
			params: [
				bytes(id),
				ttlMs,
				text(name),
				text(serves)
			]
		}),
		note: (id, inHand, alone) => ({
			text: sql.note,
			params: [
				bytes(inHand),
				Number(alone),
				bytes(id)
			]
		}),
		workers: plain$3(sql.workers),
		lockDead: plain$3(sql.lockDead),
		suspect: (seqs) => ({
			text: sql.suspect(seqs.length),
			params: seqs
		}),
		crashed: (seqs) => ({
			text: sql.crashed(seqs.length),
			params: seqs
		}),
		leave: (ids) => ({
			text: sql.leave(ids.length),
			params: ids.map(bytes)
		}),
		subscribe: (consumer, type, ordered) => ({
			text: sql.subscribe,
			params: [
				text(type),
				bytes(consumer),
				Number(ordered)
			]
		}),
		subscription: (consumer, type) => ({
			text: sql.subscription,
			params: [text(type), bytes(consumer)]
		}),
		operator: operator$1(prefix)
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
// src/stores/mysql/index.ts
function mysql(given, tables = {}) {
	if (typeof given === "object" && given !== null && "transaction" in given) {
		noOthers("options", tables, ["prefix"]);
		return new SqlStore(given, dialect$1(identifier("prefix", tables.prefix ?? "hapax_")));
	}
	noOthers("options", given, [
		"pool",
		"control",
		"url",
		"max",
		"prefix"
	]);
	const prefix = identifier("prefix", given.prefix ?? "hapax_");
	return new SqlStore(connectionOf(given), dialect$1(prefix));
}
function connectionOf(options) {
	return new MysqlConnection("pool" in options ? given(options) : opened(options));
}
/** Connections that are kept for control work. */
const CONTROL = 2;
function given({ pool, control }) {
	if (typeof pool?.getConnection !== "function") expected("pool", "a pool of mysql2", pool);
	const promise = promised(pool);
	const handlers = () => Promise.resolve(promise);
	const max = sizeOf(pool);
	const size = max === void 0 ? void 0 : {
		max,
		control: control === void 0 ? CONTROL : 0
	};
	if (control === void 0) return {
		size,
		handlers,
		control: handlers,
		close: () => Promise.resolve()
	};
	noOthers("control", control, ["url"]);
	const own = lazyPool(checkedUrl("control.url", control.url), CONTROL);
	return {
		size,
		handlers,
		control: own.get,
		close: own.close
	};
}
function opened({ url, max }) {
	const most = positiveInteger("max", max, 10);
	const handlers = lazyPool(checkedUrl("url", url), most);
	const control = lazyPool(url, CONTROL);
	const close = async () => void await Promise.all([handlers.close(), control.close()]);
	return {
		size: {
			max: most,
			control: 0
		},
		handlers: handlers.get,
		control: control.get,
		close
	};
}
function checkedUrl(name, url) {
	if (typeof url !== "string" || !/^(mysql|mariadb):\/\//.test(url)) expected(name, "a mysql:// URL", url && "(not shown)");
	return url;
}
/** The size of a pool of `mysql2`; the promise form wraps the one in callback style. Other pools do not tell. */
function sizeOf(given) {
	const { pool = given } = given;
	const { config } = pool;
	return typeof config?.connectionLimit === "number" ? config.connectionLimit : void 0;
}
/** A pool that is opened when it is needed. */
function lazyPool(url, max) {
	let pool;
	return {
		get: () => {
			pool ??= openPool(url, max);
			return pool;
		},
		close: async () => (await pool)?.end()
	};
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
const NO_PARAMS$2 = [];
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
	query(text, params = NO_PARAMS$2) {
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
		unawaited: "not detectable",
		pool: void 0
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
	}, {
		version: 2,
		name: "workers, relays and order",
		sql: [
			`alter table ${prefix}inbox add column held_at integer`,
			`alter table ${prefix}inbox add column crashes integer not null default 0`,
			`alter table ${prefix}inbox add column lane integer not null default 0`,
			`alter table ${prefix}inbox add column ordered integer not null default 0`,
			`drop index ${prefix}inbox_due`,
			`create index ${prefix}inbox_lane on ${prefix}inbox (consumer, lane, available_at, seq) where ordered = 0`,
			`create index ${prefix}inbox_key on ${prefix}inbox (consumer, lane, key, seq) where ordered = 1`,
			`alter table ${prefix}outbox add column held_at integer`,
			`alter table ${prefix}outbox add column attempts integer not null default 0`,
			`alter table ${prefix}outbox add column lane integer not null default 0`,
			`alter table ${prefix}outbox add column error text`,
			`create index ${prefix}outbox_lane on ${prefix}outbox (relay, lane, available_at, seq) where key is null`,
			`create index ${prefix}outbox_key on ${prefix}outbox (relay, lane, key, seq) where key is not null`,
			`create table ${prefix}failed_new (
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
  held_seq integer,
  lane integer not null default 0,
  ordered integer not null default 0,
  origin text not null default 'inbox',
  error_hash text not null default '',
  replaced_by text,
  unique (consumer, message_key, fingerprint, origin)
) strict`,
			`insert into sqlite_sequence (name, seq)
select '${prefix}failed_new', seq from sqlite_sequence where name = '${prefix}failed'`,
			`insert into ${prefix}failed_new
  (seq, failed_at, message_key, attempts, fingerprint, consumer, source, id, type, key, attributes, reason, error, data)
select seq, failed_at, message_key, attempts, fingerprint, consumer, source, id, type, key, attributes, reason, error, data
from ${prefix}failed`,
			`drop table ${prefix}failed`,
			`alter table ${prefix}failed_new rename to ${prefix}failed`,
			`create index ${prefix}inbox_held on ${prefix}inbox (held_at) where held_at is not null`,
			`create index ${prefix}outbox_held on ${prefix}outbox (held_at) where held_at is not null`,
			`create index ${prefix}failed_held on ${prefix}failed (held_seq) where held_seq is not null`,
			`alter table ${prefix}subscriptions add column ordered integer not null default 0`,
			`create table ${prefix}workers (
  id text primary key,
  started_at integer not null default (${NOW}),
  heartbeat_at integer not null default (${NOW}),
  ttl_ms integer not null,
  alone integer not null default 0,
  name text not null,
  serves text not null,
  in_hand text not null default '[]'
) strict, without rowid`,
			`create table ${prefix}relays (
  name text primary key,
  destination text not null,
  recorded_at integer not null default (${NOW})
) strict, without rowid`,
			`create table ${prefix}sent (
  seq integer primary key autoincrement,
  sent_at integer not null default (${NOW}),
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
			`create table ${prefix}audit (
  seq integer primary key autoincrement,
  at integer not null default (${NOW}),
  action text not null,
  actor text not null,
  origin text,
  consumer text,
  source text,
  id text,
  type text,
  note text
) strict`
		]
	}];
}
// src/stores/sqlite/checkup.ts
const plain$2 = (text) => ({
	text,
	params: []
});
/** A larger file is not read from end to end: nothing else could run in this process meanwhile. */
const MAX_CHECKED = 268435456;
/** What `doctor` looks at on SQLite. */
async function checkup(query, prefix) {
	let bytes = 0;
	const findings = await lookAt$1(query, [
		{
			check: "file",
			statement: plain$2(`
select page_count * page_size as bytes, freelist_count * page_size as free, sqlite_version() as version
from pragma_page_count(), pragma_page_size(), pragma_freelist_count()`),
			judge: ([row]) => {
				bytes = Number(row?.["bytes"]);
				return ok$2(`SQLite ${asText(row?.["version"])}, ${size(bytes)}, ${size(Number(row?.["free"]))} of it free`);
			}
		},
		{
			check: "file system",
			statement: plain$2("pragma database_list"),
			judge: fileSystem
		},
		{
			check: "settings",
			statement: plain$2("pragma synchronous"),
			judge: ([row]) => synchronous(row)
		},
		{
			check: "settings",
			statement: plain$2("pragma journal_mode"),
			judge: ([row]) => journal(row)
		},
		clockCheck(plain$2(`select ${NOW} as ms`)),
		{
			check: "schema drift",
			statement: {
				text: `
select t.name as name, c.name as part from sqlite_schema as t, pragma_table_info(t.name) as c
where t.type = 'table' and substr(t.name, 1, ?) = ?
union all
select tbl_name, name from sqlite_schema where type = 'index' and substr(tbl_name, 1, ?) = ?`,
				params: [
					prefix.length,
					prefix,
					prefix.length,
					prefix
				]
			},
			judge: (rows) => schemaVerdict(expectedTables(migrations(prefix), (table) => table), new Set(rows.map((row) => `${asText(row["name"])}.${asText(row["part"])}`)))
		}
	]);
	if (bytes > MAX_CHECKED) return [...findings, unchecked(bytes)];
	return [...findings, ...await lookAt$1(query, [{
		check: "integrity",
		statement: plain$2("pragma quick_check(1)"),
		judge: integrity
	}])];
}
function unchecked(bytes) {
	return {
		check: "integrity",
		...ok$2(`not read: the file has ${size(bytes)}; sqlite3 <file> 'pragma quick_check' reads it in another process`)
	};
}
function integrity([row]) {
	const answer = asText(row?.["quick_check"]);
	if (answer === "ok") return ok$2("the file is sound");
	return error(`the file is damaged: ${answer}`, "Stop writing to it and restore a backup, or try sqlite3 <file> .recover.");
}
function synchronous(row) {
	const level = Number(row?.["synchronous"]);
	if (level >= 2) return ok$2(`synchronous is ${level === 2 ? "full" : "extra"}`);
	return error(`synchronous is ${level === 1 ? "normal" : "off"}: what was acknowledged may be lost when the power fails`, "Do not change it on the connection of hapax.");
}
function journal(row) {
	const mode = asText(row?.["journal_mode"]);
	if (mode === "wal") return ok$2("journal_mode is wal");
	if (mode === "memory") return warning("the database lives in memory and ends with the process", "Use a file.");
	return warning(`journal_mode is ${mode}: readers wait for writers`, "Somebody changed it: pragma journal_mode = wal.");
}
const NETWORK = /^(nfs\d?|cifs|smb\w*|ncpfs|afs|coda|ceph|lustre|glusterfs|9p|fuse\.(sshfs|glusterfs|s3fs|rclone|gcsfuse))$/;
/** SQLite's locks and its shared memory work only between processes of one host. */
function fileSystem(rows) {
	const file = asText(rows.find((row) => asText(row["name"]) === "main")?.["file"] ?? "");
	if (file === "") return ok$2("in memory");
	const type = mountType(dirname(file));
	if (type === void 0) return ok$2("it cannot be told here; the file has to be on a disk of this host");
	if (!NETWORK.test(type)) return ok$2(`the file is on ${type}`);
	return error(`the file is on ${type}, where the locks of SQLite cannot be trusted`, "Move the file to a disk of this host; share a database between hosts with PostgreSQL or MariaDB.");
}
/** The type of the file system that a directory is on, where Linux tells. */
function mountType(directory) {
	try {
		const path = `${realpathSync(directory)}/`;
		let best;
		for (const line of readFileSync("/proc/mounts", "utf8").split("\n")) {
			const [, at = "", type = ""] = line.split(" ");
			const mount = at.replaceAll("\\040", " ");
			const inside = mount === "/" || path.startsWith(`${mount}/`);
			if (at !== "" && inside && mount.length >= (best?.at.length ?? 0)) best = {
				at: mount,
				type
			};
		}
		return best?.type;
	} catch {
		return;
	}
}
// src/stores/sqlite/operator.ts
const NO_PARAMS$1 = [];
const plain$1 = (text) => ({
	text,
	params: NO_PARAMS$1
});
/** The statements of the tools that people use, on SQLite with one prefix. A transaction holds the only write lock. */
function operator(prefix) {
	const sql = statements$1(prefix);
	return {
		failedList: ({ before, limit, ...where }) => ({
			text: sql.failedList,
			params: [
				...failedParams(where),
				before ?? MAX_SEQ,
				limit
			]
		}),
		failedCount: (where) => ({
			text: sql.failedCount,
			params: failedParams(where)
		}),
		failedGroups: (where, limit) => ({
			text: sql.failedGroups,
			params: [...failedParams(where), limit]
		}),
		failedSeqs: (where, after, limit) => ({
			text: sql.failedSeqs,
			params: [
				...failedParams(where),
				after ?? "0",
				limit
			]
		}),
		failedGet: (seq) => ({
			text: sql.failedGet,
			params: [seq]
		}),
		failedLock: (seq, replaced) => ({
			text: sql.failedLock,
			params: [seq, replaced ? 1 : 0]
		}),
		copyBack: (seq, origin) => ({
			text: sql.copyBack[origin],
			params: [seq]
		}),
		copyEdited: (seq, origin, message) => ({
			text: sql.copyEdited[origin],
			params: [...columns$1(message), seq]
		}),
		unhold: (origin, seq) => ({
			text: sql.unhold[origin],
			params: [seq]
		}),
		replaceHeld: (origin, seq, message) => ({
			text: sql.replaceHeld[origin],
			params: [...columns$1(message), seq]
		}),
		deleteHeld: (origin, seq) => ({
			text: sql.deleteHeld[origin],
			params: [seq]
		}),
		deleteFailed: (seq) => ({
			text: sql.deleteFailed,
			params: [seq]
		}),
		failedReplaced: (seq, id) => ({
			text: sql.failedReplaced,
			params: [encodeText(id), seq]
		}),
		insertReceipt: (consumer, token, { messageKey, source, id, type, fingerprint }) => ({
			text: sql.insertReceipt,
			params: [
				consumer,
				messageKey,
				token,
				fingerprint,
				encodeText(source),
				encodeText(id),
				encodeText(type)
			]
		}),
		auditFailed: (seq, { action, actor, note }) => ({
			text: sql.auditFailed,
			params: [
				action,
				encodeText(actor),
				encoded(note),
				seq
			]
		}),
		auditOther: ({ action, actor, note }, { origin, consumer, source, id, type }) => ({
			text: sql.auditOther,
			params: [
				action,
				encodeText(actor),
				...[
					note,
					origin,
					consumer,
					source,
					id,
					type
				].map(encoded)
			]
		}),
		heldKeys: (limit) => ({
			text: sql.heldKeys,
			params: [limit]
		}),
		lockHeld: (origin, scope, key) => ({
			text: sql.lockHeld[origin],
			params: [scope, encodeText(key)]
		}),
		heldToFailed: (origin, seq) => ({
			text: sql.heldToFailed[origin],
			params: [seq]
		}),
		failedLetGo: (origin, heldSeq) => ({
			text: sql.failedLetGo,
			params: [origin, heldSeq]
		}),
		moveRelay: (name, destination) => ({
			text: sql.moveRelay,
			params: [name, encodeText(destination)]
		}),
		subscriptions: plain$1(sql.subscriptions),
		lockSubscriptions: (consumer) => ({
			text: sql.lockSubscriptions,
			params: [consumer]
		}),
		unsubscribe: (consumer) => ({
			text: sql.unsubscribe,
			params: [consumer]
		}),
		sentList: ({ before, limit, ...where }) => ({
			text: sql.sentList,
			params: [
				...sentParams(where),
				before ?? MAX_SEQ,
				limit
			]
		}),
		sentSeqs: (where, after, limit) => ({
			text: sql.sentSeqs,
			params: [
				...sentParams(where),
				after ?? "0",
				limit
			]
		}),
		sentGet: (seq) => ({
			text: sql.sentGet,
			params: [seq]
		}),
		republish: (seq, lane) => ({
			text: sql.republish,
			params: [lane, seq]
		}),
		cleanup: (query, step, olderThanMs, limit) => cleaned(sql, query, step, olderThanMs, limit),
		cleanable: (consumer, olderThanMs) => ({
			text: sql.cleanable,
			params: [consumer, olderThanMs]
		}),
		checkup: (query) => checkup(query, prefix),
		statusConsumers: plain$1(sql.statusConsumers),
		statusRelays: plain$1(sql.statusRelays),
		trace: (id) => sql.trace.map((text) => ({
			text,
			params: [encodeText(id)]
		}))
	};
}
const MAX_SEQ = "9223372036854775807";
function encoded(text) {
	return text === void 0 ? null : encodeText(text);
}
/** message_key, source, id, type, key, attributes, data, fingerprint: eight parameters. */
function columns$1(message) {
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
/** The parameters of `FAILED_WHERE`. */
function failedParams(where) {
	const { origin, consumer, type, reason, errorHash, olderThanMs, newerThanMs, replaced } = where;
	return [
		...[
			origin ?? null,
			consumer ?? null,
			encoded(type),
			reason ?? null,
			errorHash ?? null
		],
		olderThanMs ?? null,
		newerThanMs ?? null,
		replaced ? 1 : 0
	];
}
/** The parameters of `SENT_WHERE`. */
function sentParams({ relay, type, olderThanMs, newerThanMs }) {
	return [
		relay ?? null,
		encoded(type),
		olderThanMs ?? null,
		newerThanMs ?? null
	];
}
const NO_UUID = "00000000-0000-0000-0000-000000000000";
/** Finds the end of a page, then deletes what is old and finished up to there. */
async function cleaned(sql, query, step, olderThanMs, limit) {
	if (step.kind === "receipts") {
		const { consumer, after = NO_UUID } = step;
		const [page] = (await query({
			text: sql.receiptPage,
			params: [
				consumer,
				after,
				limit
			]
		})).rows;
		if (page === void 0 || Number(page["count"]) === 0) return {
			deleted: 0,
			after: void 0
		};
		const last = asUuid(page["last"]);
		const { affected } = await query({
			text: sql.cleanReceipts,
			params: [
				consumer,
				after,
				last,
				olderThanMs
			]
		});
		return {
			deleted: affected,
			after: Number(page["count"]) < limit ? void 0 : last
		};
	}
	const { affected } = await query(step.kind === "sent" ? {
		text: sql.cleanSent,
		params: [
			step.relay,
			limit,
			olderThanMs
		]
	} : {
		text: sql.cleanAudit,
		params: [limit, olderThanMs]
	});
	return {
		deleted: affected,
		after: affected < limit ? void 0 : "0"
	};
}
const UUID$1 = `unhex(?, '-')`;
const COLUMNS = "message_key, source, id, type, key, attributes, data, fingerprint";
const VALUES = `${UUID$1}, ?, ?, ?, ?, ?, ?, unhex(?)`;
const MESSAGE$1 = "m.message_key, m.source, m.id, m.type, m.key, m.attributes, m.data, m.fingerprint";
const FAILED = `cast(m.seq as text) as seq, m.origin, m.consumer, ${MESSAGE$1}, m.attempts, m.reason, m.error, m.error_hash,
  m.failed_at, cast(m.held_seq as text) as held_seq, m.replaced_by`;
const FAILED_GIVEN = `
with f (origin_, consumer_, type_, reason_, hash_, older_, newer_, replaced_) as (values (?, ?, ?, ?, ?, ?, ?, ?))`;
const FAILED_WHERE = `(f.origin_ is null or m.origin = f.origin_) and (f.consumer_ is null or m.consumer = f.consumer_)
  and (f.type_ is null or m.type = f.type_) and (f.reason_ is null or m.reason = f.reason_)
  and (f.hash_ is null or m.error_hash = f.hash_)
  and (f.older_ is null or m.failed_at < ${NOW} - f.older_) and (f.newer_ is null or m.failed_at >= ${NOW} - f.newer_)
  and (m.replaced_by is not null) = f.replaced_`;
const SENT_GIVEN = `
with f (relay_, type_, older_, newer_) as (values (?, ?, ?, ?))`;
const SENT_WHERE = `(f.relay_ is null or m.relay = f.relay_) and (f.type_ is null or m.type = f.type_)
  and (f.older_ is null or m.sent_at < ${NOW} - f.older_) and (f.newer_ is null or m.sent_at >= ${NOW} - f.newer_)`;
const UNKNOWN_ERROR = `'{"name":"Error","message":"held for a reason that is not known any more"}'`;
/** Every statement, whole and by name. */
function statements$1(prefix) {
	const both = (text) => ({
		inbox: text("inbox"),
		outbox: text("outbox")
	});
	const counts = {
		inbox: "attempts = 0, lost = 0, starts = 0, crashes = 0",
		outbox: "attempts = 0"
	};
	const scope = {
		inbox: "consumer",
		outbox: "relay"
	};
	/** A receipt stays while the inbox or the failed store has its message. */
	const finished = `
  not exists (select 1 from ${prefix}inbox as i where i.message_key = r.message_key and i.consumer = r.consumer)
  and not exists (select 1 from ${prefix}failed as f
    where f.consumer = r.consumer and f.message_key = r.message_key and f.origin = 'inbox')`;
	return {
		failedList: `${FAILED_GIVEN}
select ${FAILED} from ${prefix}failed as m, f where ${FAILED_WHERE} and m.seq < cast(? as integer)
order by m.seq desc limit ?`,
		failedCount: `${FAILED_GIVEN}
select count(*) as count from ${prefix}failed as m, f where ${FAILED_WHERE}`,
		failedGroups: `${FAILED_GIVEN}
select g.*, cast(g.last as text) as seq, newest.error
from (
  select m.origin, m.consumer, m.type, m.reason, m.error_hash, count(*) as count, min(m.failed_at) as first_at,
    max(m.failed_at) as last_at, max(m.seq) as last
  from ${prefix}failed as m, f where ${FAILED_WHERE}
  group by m.origin, m.consumer, m.type, m.reason, m.error_hash
  order by count(*) desc, max(m.seq) desc limit ?
) as g join ${prefix}failed as newest on newest.seq = g.last
order by g.count desc, g.last desc`,
		failedSeqs: `${FAILED_GIVEN}
select cast(m.seq as text) as seq from ${prefix}failed as m, f where ${FAILED_WHERE} and m.seq > cast(? as integer)
order by m.seq limit ?`,
		failedGet: `select ${FAILED} from ${prefix}failed as m where m.seq = ?`,
		failedLock: `
select cast(m.seq as text) as seq, m.origin, m.consumer,
  case m.origin
    when 'outbox' then (select cast(o.seq as text) from ${prefix}outbox as o where o.seq = m.held_seq and o.held_at is not null)
    else (select cast(i.seq as text) from ${prefix}inbox as i where i.seq = m.held_seq and i.held_at is not null)
  end as held_seq
from ${prefix}failed as m where m.seq = ? and (m.replaced_by is null or ? = 1)`,
		copyBack: {
			inbox: `
insert into ${prefix}inbox (consumer, ${COLUMNS}, lane, ordered, available_at)
select consumer, ${COLUMNS}, lane, ordered, ${NOW} from ${prefix}failed where seq = ?`,
			outbox: `
insert into ${prefix}outbox (relay, ${COLUMNS}, lane, available_at)
select consumer, ${COLUMNS}, lane, ${NOW} from ${prefix}failed where seq = ?`
		},
		copyEdited: {
			inbox: `
insert into ${prefix}inbox (${COLUMNS}, consumer, lane, ordered, available_at)
select ${VALUES}, consumer, lane, ordered, ${NOW} from ${prefix}failed where seq = ?`,
			outbox: `
insert into ${prefix}outbox (${COLUMNS}, relay, lane, available_at)
select ${VALUES}, consumer, lane, ${NOW} from ${prefix}failed where seq = ?`
		},
		unhold: both((table) => `
update ${prefix}${table} set held_at = null, error = null, available_at = ${NOW}, ${counts[table]} where seq = ?`),
		replaceHeld: both((table) => `
update ${prefix}${table} set (${COLUMNS}) = (${VALUES}),
  held_at = null, error = null, available_at = ${NOW}, ${counts[table]}
where seq = ?`),
		deleteHeld: both((table) => `delete from ${prefix}${table} where seq = ?`),
		deleteFailed: `delete from ${prefix}failed where seq = ?`,
		failedReplaced: `update ${prefix}failed set replaced_by = ?, held_seq = null where seq = ?`,
		insertReceipt: `
insert into ${prefix}receipts (consumer, message_key, token, fingerprint, source, id, type)
values (?, ${UUID$1}, ${UUID$1}, unhex(?), ?, ?, ?)`,
		auditFailed: `
insert into ${prefix}audit (action, actor, note, origin, consumer, source, id, type)
select ?, ?, ?, origin, consumer, source, id, type from ${prefix}failed where seq = ?`,
		auditOther: `
insert into ${prefix}audit (action, actor, note, origin, consumer, source, id, type) values (?, ?, ?, ?, ?, ?, ?, ?)`,
		heldKeys: `
select h.origin, h.scope, h.key, h.id, h.held_at, cast(m.seq as text) as failed_seq,
  case h.origin
    when 'outbox' then (select count(*) from ${prefix}outbox as o
      where o.relay = h.scope and o.lane = h.lane and o.key = h.key and o.seq > h.seq)
    else (select count(*) from ${prefix}inbox as i
      where i.consumer = h.scope and i.lane = h.lane and i.key = h.key and i.ordered = 1 and i.seq > h.seq)
  end as waiting
from (
  select 'inbox' as origin, seq, consumer as scope, lane, key, id, held_at from ${prefix}inbox
  where held_at is not null and key is not null
  union all
  select 'outbox', seq, relay, lane, key, id, held_at from ${prefix}outbox
  where held_at is not null and key is not null
  order by held_at, seq limit ?
) as h left join ${prefix}failed as m on m.origin = h.origin and m.held_seq = h.seq
order by h.held_at, h.seq`,
		lockHeld: both((table) => `
select cast(m.seq as text) as seq, m.source, m.id, m.type,
  (select cast(f.seq as text) from ${prefix}failed as f where f.origin = '${table}' and f.held_seq = m.seq limit 1) as failed_seq
from ${prefix}${table} as m
where m.${scope[table]} = ? and m.key = ? and m.held_at is not null order by +m.seq limit 1`),
		heldToFailed: {
			inbox: `
insert into ${prefix}failed (origin, consumer, ${COLUMNS}, lane, ordered, attempts, reason, error)
select 'inbox', consumer, ${COLUMNS}, lane, ordered, attempts, 'permanent', coalesce(error, ${UNKNOWN_ERROR})
from ${prefix}inbox where seq = ?
on conflict do nothing`,
			outbox: `
insert into ${prefix}failed (origin, consumer, ${COLUMNS}, lane, ordered, attempts, reason, error)
select 'outbox', relay, ${COLUMNS}, lane, key is not null, attempts, 'permanent', coalesce(error, ${UNKNOWN_ERROR})
from ${prefix}outbox where seq = ?
on conflict do nothing`
		},
		failedLetGo: `update ${prefix}failed set held_seq = null where origin = ? and held_seq = cast(? as integer)`,
		moveRelay: `
insert into ${prefix}relays (name, destination) values (?, ?)
on conflict (name) do update set destination = excluded.destination, recorded_at = ${NOW}`,
		subscriptions: `select consumer, type, ordered from ${prefix}subscriptions order by consumer, type`,
		lockSubscriptions: `select type from ${prefix}subscriptions where consumer = ?`,
		unsubscribe: `delete from ${prefix}subscriptions where consumer = ?`,
		sentList: `${SENT_GIVEN}
select cast(m.seq as text) as seq, m.relay, m.sent_at, ${MESSAGE$1} from ${prefix}sent as m, f
where ${SENT_WHERE} and m.seq < cast(? as integer) order by m.seq desc limit ?`,
		sentSeqs: `${SENT_GIVEN}
select cast(m.seq as text) as seq from ${prefix}sent as m, f
where ${SENT_WHERE} and m.seq > cast(? as integer) order by m.seq limit ?`,
		sentGet: `select cast(m.seq as text) as seq, m.relay, ${MESSAGE$1} from ${prefix}sent as m where m.seq = ?`,
		republish: `
insert into ${prefix}outbox (relay, ${COLUMNS}, lane, available_at)
select relay, ${COLUMNS}, ?, ${NOW} from ${prefix}sent where seq = ?`,
		receiptPage: `
select max(message_key) as last, count(*) as count from (
  select message_key from ${prefix}receipts where consumer = ? and message_key > ${UUID$1} order by message_key limit ?)`,
		cleanReceipts: `
delete from ${prefix}receipts as r
where r.consumer = ? and r.message_key > ${UUID$1} and r.message_key <= ${UUID$1} and r.taken_at < ${NOW} - ? and ${finished}`,
		cleanable: `
select count(*) as count from ${prefix}receipts as r
where r.consumer = ? and r.taken_at < ${NOW} - ? and ${finished}`,
		cleanSent: `
delete from ${prefix}sent where seq in (select seq from ${prefix}sent where relay = ? order by seq limit ?)
  and sent_at < ${NOW} - ?`,
		cleanAudit: `
delete from ${prefix}audit where seq in (select seq from ${prefix}audit order by seq limit ?) and at < ${NOW} - ?`,
		statusConsumers: `
select consumer, sum(receipts) as receipts, sum(waiting) as waiting, sum(retrying) as retrying, sum(held) as held,
  sum(failed) as failed
from (
  select consumer, count(*) as receipts, 0 as waiting, 0 as retrying, 0 as held, 0 as failed
  from ${prefix}receipts group by consumer
  union all
  select consumer, 0, count(*) filter (where held_at is null and attempts = 0),
    count(*) filter (where held_at is null and attempts > 0), count(held_at), 0
  from ${prefix}inbox group by consumer
  union all
  select consumer, 0, 0, 0, 0, count(*) from ${prefix}failed
  where origin = 'inbox' and replaced_by is null group by consumer
)
group by consumer order by consumer`,
		statusRelays: `
select relay, sum(waiting) as waiting, sum(held) as held, sum(failed) as failed, min(oldest) as oldest,
  max(destination) as destination
from (
  select relay, count(*) - count(held_at) as waiting, count(held_at) as held, 0 as failed, min(created_at) as oldest,
    null as destination
  from ${prefix}outbox group by relay
  union all
  select consumer, 0, 0, count(*), null, null from ${prefix}failed
  where origin = 'outbox' and replaced_by is null group by consumer
  union all
  select name, 0, 0, 0, null, destination from ${prefix}relays
)
group by relay order by relay`,
		trace: [
			`select 'receipt' as place, consumer as scope, source, type, taken_at as at from ${prefix}receipts where id = ?`,
			`
select 'inbox' as place, consumer as scope, source, type, created_at as at, attempts, key, available_at as due_at, held_at,
  error
from ${prefix}inbox where id = ?`,
			`
select 'outbox' as place, relay as scope, source, type, created_at as at, attempts, key, held_at, error
from ${prefix}outbox where id = ?`,
			`select 'sent' as place, relay as scope, source, type, sent_at as at from ${prefix}sent where id = ?`,
			`
select 'failed' as place, cast(seq as text) as seq, origin, consumer as scope, source, type, failed_at as at, attempts,
  reason, cast(held_seq as text) as held_seq, replaced_by, error
from ${prefix}failed where id = ?`,
			`
select 'audit' as place, consumer as scope, source, type, at, action, actor, note from ${prefix}audit where id = ?`
		]
	};
}
// src/stores/sqlite/statements.ts
const LATER = `cast(round(unixepoch('subsec') * 1000 + ?) as integer)`;
const UUID = `unhex(?, '-')`;
const MESSAGE = "message_key, source, id, type, key, attributes, data, fingerprint";
const MESSAGE_VALUES = `${UUID}, ?, ?, ?, ?, ?, ?, unhex(?)`;
const SEQ = "cast(seq as text) as seq";
/** The numbers of a JSON array of texts. */
const SEQS = "(select cast(value as integer) from json_each(?))";
const READY = `i.held_at is null and i.available_at <= ${NOW}`;
/** How many rows of one key a look lists at most. */
const RUN = 100;
const LAST = "9223372036854775807";
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
		lock: `select ${SEQ} from ${prefix}inbox as i where i.seq in ${SEQS} order by i.seq`,
		claim: `
with given (seq) as materialized (
  select i.seq from ${prefix}inbox as i where i.seq in ${SEQS} and i.held_at is null
)
delete from ${prefix}inbox where seq in (
  select mine.seq from ${prefix}inbox as mine
  where mine.seq in (select seq from given) and (mine.ordered = 0 or not exists (
    select 1 from ${prefix}inbox as older
    where older.ordered = 1 and older.consumer = mine.consumer and older.lane = mine.lane and older.key = mine.key
      and older.seq < mine.seq and older.seq not in (select seq from given))))
returning ${SEQ}, consumer, ${MESSAGE}, ordered, attempts, lost, starts, crashes`,
		blocked: `
with given (seq) as materialized ${SEQS}
select cast(mine.seq as text) as seq from ${prefix}inbox as mine
where mine.seq in (select seq from given) and mine.ordered = 1 and exists (
  select 1 from ${prefix}inbox as older
  where older.ordered = 1 and older.consumer = mine.consumer and older.lane = mine.lane and older.key = mine.key
    and older.seq < mine.seq and older.seq not in (select seq from given))`,
		deleteInbox: `delete from ${prefix}inbox where seq = ?`,
		insertInbox: `
insert into ${prefix}inbox (consumer, ${MESSAGE}, attempts, starts, available_at, error, lane, ordered)
values (?, ${MESSAGE_VALUES}, ?, ?, ${LATER}, ?, ?, ?)`,
		insertFailed: `
insert into ${prefix}failed (consumer, ${MESSAGE}, attempts, reason, error, error_hash, lane, ordered)
values (?, ${MESSAGE_VALUES}, ?, ?, ?, ?, ?, ?)
on conflict do nothing`,
		insertOutbox: `
insert into ${prefix}outbox (relay, ${MESSAGE}, available_at, lane)
values (?, ${MESSAGE_VALUES}, ${LATER}, ?)`,
		listening: `
with known (consumer, ordered) as (
  select distinct value ->> 'name', value ->> 'ordered' from json_each(?)
)
select consumer, ordered from known
union all
select consumer, ordered from ${prefix}subscriptions
where type = ? and consumer not in (select consumer from known)
order by 1`,
		lookInbox: `
with recursive lane (lane, after) as materialized (
  select value ->> 'lane', value ->> 'after' from json_each(?2)
), head (lane, seq, key, ready, nth) as (
  select i.lane, i.seq, i.key, ${READY}, 1
  from lane join ${prefix}inbox as i on i.seq = (
    select n.seq from ${prefix}inbox as n
    where n.ordered = 1 and n.consumer = ?3 and n.lane = lane.lane and n.key > lane.after
    order by n.key, n.seq limit 1)
  union all
  select i.lane, i.seq, i.key, ${READY}, head.nth + 1
  from head join ${prefix}inbox as i on i.seq = (
    select n.seq from ${prefix}inbox as n
    where n.ordered = 1 and n.consumer = ?3 and n.lane = head.lane and n.key > head.key
    order by n.key, n.seq limit 1)
  where head.nth < ?4
)
select ?1 as share, cast(i.seq as text) as seq, i.type, i.lane, null as key, length(i.data) as bytes,
  i.available_at - ${NOW} as ms, 0 as held, i.starts
from lane join ${prefix}inbox as i on i.seq in (
  select n.seq from ${prefix}inbox as n
  where n.ordered = 0 and n.consumer = ?3 and n.lane = lane.lane and n.available_at <= ${NOW}
    and n.type in (select value from json_each(?5))
  order by n.available_at, n.seq limit ?4)
union all
select ?1, cast(i.seq as text), i.type, i.lane, null, 0, i.available_at - ${NOW}, 0, 0
from lane join ${prefix}inbox as i on i.seq = (
  select n.seq from ${prefix}inbox as n
  where n.ordered = 0 and n.consumer = ?3 and n.lane = lane.lane and n.available_at > ${NOW}
    and n.type in (select value from json_each(?5))
  order by n.available_at, n.seq limit 1)
union all
select ?1, cast(i.seq as text), i.type, i.lane, i.key, length(i.data), i.available_at - ${NOW}, i.held_at is not null,
  i.starts
from head join ${prefix}inbox as i on i.seq in (
  select n.seq from ${prefix}inbox as n
  where n.ordered = 1 and n.consumer = ?3 and n.lane = head.lane and n.key = head.key
    and n.seq <= iif(head.ready, ${LAST}, head.seq)
  order by n.seq limit ${RUN})`,
		lookOutbox: `
with recursive lane (lane, after) as materialized (
  select value ->> 'lane', value ->> 'after' from json_each(?2)
), head (lane, seq, key, ready, nth) as (
  select i.lane, i.seq, i.key, ${READY}, 1
  from lane join ${prefix}outbox as i on i.seq = (
    select n.seq from ${prefix}outbox as n
    where n.key is not null and n.relay = ?3 and n.lane = lane.lane and n.key > lane.after
    order by n.key, n.seq limit 1)
  union all
  select i.lane, i.seq, i.key, ${READY}, head.nth + 1
  from head join ${prefix}outbox as i on i.seq = (
    select n.seq from ${prefix}outbox as n
    where n.key is not null and n.relay = ?3 and n.lane = head.lane and n.key > head.key
    order by n.key, n.seq limit 1)
  where head.nth < ?4
)
select ?1 as share, cast(i.seq as text) as seq, i.type, i.lane, null as key, length(i.data) as bytes,
  i.available_at - ${NOW} as ms, 0 as held, 0 as starts
from lane join ${prefix}outbox as i on i.seq in (
  select n.seq from ${prefix}outbox as n
  where n.key is null and n.relay = ?3 and n.lane = lane.lane and n.available_at <= ${NOW}
  order by n.available_at, n.seq limit ?4)
union all
select ?1, cast(i.seq as text), i.type, i.lane, null, 0, i.available_at - ${NOW}, 0, 0
from lane join ${prefix}outbox as i on i.seq = (
  select n.seq from ${prefix}outbox as n
  where n.key is null and n.relay = ?3 and n.lane = lane.lane and n.available_at > ${NOW}
  order by n.available_at, n.seq limit 1)
union all
select ?1, cast(i.seq as text), i.type, i.lane, i.key, length(i.data), i.available_at - ${NOW}, i.held_at is not null, 0
from head join ${prefix}outbox as i on i.seq in (
  select n.seq from ${prefix}outbox as n
  where n.key is not null and n.relay = ?3 and n.lane = head.lane and n.key = head.key
    and n.seq <= iif(head.ready, ${LAST}, head.seq)
  order by n.seq limit ${RUN})`,
		reschedule: `
update ${prefix}inbox set attempts = ?, lost = ?, starts = 0, available_at = ${LATER}, error = ? where seq = ?`,
		lockInbox: `select ${SEQ} from ${prefix}inbox where seq = ?`,
		copyToFailed: `
insert into ${prefix}failed
  (consumer, ${MESSAGE}, lane, ordered, held_seq, attempts, reason, error, error_hash)
select consumer, ${MESSAGE}, lane, ordered, iif(?, seq, null), ?, ?, ?, ? from ${prefix}inbox where seq = ?
on conflict (consumer, message_key, fingerprint, origin) do update
set held_seq = coalesce(held_seq, excluded.held_seq), replaced_by = null`,
		holdInbox: `update ${prefix}inbox set held_at = ${NOW}, attempts = ?, error = ?, starts = 0 where seq = ?`,
		inboxSeq: `
select ${SEQ} from ${prefix}inbox as i where consumer = ? and message_key = ${UUID} order by i.seq limit 1`,
		outboxRows: `
select ${SEQ}, relay, ${MESSAGE}, attempts from ${prefix}outbox as o where o.seq in ${SEQS} order by o.seq`,
		copyToSent: `
insert into ${prefix}sent (relay, ${MESSAGE})
select relay, ${MESSAGE} from ${prefix}outbox where seq in ${SEQS} order by seq`,
		deleteOutbox: `delete from ${prefix}outbox where seq in ${SEQS}`,
		postpone: `update ${prefix}outbox set attempts = attempts + 1, available_at = ${LATER}, error = ? where seq = ?`,
		lockOutbox: `select ${SEQ} from ${prefix}outbox where seq = ?`,
		refuseToFailed: `
insert into ${prefix}failed
  (origin, consumer, ${MESSAGE}, lane, ordered, attempts, held_seq, reason, error, error_hash)
select 'outbox', relay, ${MESSAGE}, lane, key is not null, attempts + 1, iif(?, seq, null), ?, ?, ?
from ${prefix}outbox where seq = ?
on conflict (consumer, message_key, fingerprint, origin) do update
set held_seq = coalesce(held_seq, excluded.held_seq), replaced_by = null`,
		holdOutbox: `update ${prefix}outbox set held_at = ${NOW}, attempts = attempts + 1, error = ? where seq = ?`,
		recordRelay: `insert into ${prefix}relays (name, destination) values (?, ?) on conflict do nothing`,
		relay: `select destination from ${prefix}relays where name = ?`,
		join: `insert into ${prefix}workers (id, ttl_ms, name, serves) values (?, ?, ?, ?) on conflict do nothing`,
		note: `update ${prefix}workers set in_hand = ?, alone = ? where id = ?`,
		beat: `update ${prefix}workers set in_hand = ?, alone = ?, heartbeat_at = ${NOW} where id = ?`,
		workers: `
select id, name, serves, started_at, ${NOW} - heartbeat_at as silent_ms, ${NOW} - heartbeat_at <= ttl_ms as alive, in_hand
from ${prefix}workers order by id`,
		lockDead: `select id, in_hand, alone from ${prefix}workers where ${NOW} - heartbeat_at > ttl_ms order by id`,
		suspect: `update ${prefix}inbox set starts = starts + 1 where seq in ${SEQS}`,
		crashed: `update ${prefix}inbox set starts = starts + 1, crashes = crashes + 1 where seq in ${SEQS}`,
		leave: `delete from ${prefix}workers where id in (select value from json_each(?))`,
		subscribe: `
insert into ${prefix}subscriptions (consumer, type, ordered) values (?, ?, ?)
on conflict (consumer, type) do update set ordered = excluded.ordered`,
		subscription: `select ordered from ${prefix}subscriptions where consumer = ? and type = ?`
	};
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
		delimiter: void 0,
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
		lockAll: (seqs) => ({
			text: sql.lock,
			params: [JSON.stringify(seqs)]
		}),
		claimDeletes: true,
		blocked: (seqs) => ({
			text: sql.blocked,
			params: [JSON.stringify(seqs)]
		}),
		backend: () => void 0,
		terminate: () => plain("select 1"),
		fate: () => void 0,
		deleteInbox: (seqs) => seqs.map((seq) => ({
			text: sql.deleteInbox,
			params: [seq]
		})),
		insertInbox: (rows) => rows.map((row) => ({
			text: sql.insertInbox,
			params: inboxValues(row)
		})),
		insertFailed: (rows) => rows.map(({ consumer, message, ordered, attempts, reason, error }) => ({
			text: sql.insertFailed,
			params: [
				consumer,
				...columns(message),
				attempts,
				reason,
				JSON.stringify(error),
				errorHash(error),
				...place(message, ordered)
			]
		})),
		insertOutbox: (rows) => rows.map(({ relay, message, delayMs }) => ({
			text: sql.insertOutbox,
			params: [
				relay,
				...columns(message),
				delayMs,
				laneOf(message, true)
			]
		})),
		writeLocal: async (executor, rows, token) => {
			const results = [];
			for (const row of rows) results.push(await deliver(sql, executor, row, token));
			return results;
		},
		look: async (query, shares) => {
			const rows = [];
			for (const [index, share] of shares.entries()) rows.push(...await lookAt(sql, query, share, index));
			return {
				rows,
				affected: rows.length
			};
		},
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
		lockInbox: (seq) => ({
			text: sql.lockInbox,
			params: [seq]
		}),
		copyToFailed: ({ seq, attempts, reason, error, hold }) => ({
			text: sql.copyToFailed,
			params: [
				Number(hold),
				attempts,
				reason,
				JSON.stringify(error),
				errorHash(error),
				seq
			]
		}),
		holdInbox: ({ seq, attempts, error }) => ({
			text: sql.holdInbox,
			params: [
				attempts,
				JSON.stringify(error),
				seq
			]
		}),
		inboxSeq: (consumer, messageKey) => ({
			text: sql.inboxSeq,
			params: [consumer, messageKey]
		}),
		outboxRows: (seqs) => ({
			text: sql.outboxRows,
			params: [JSON.stringify(seqs)]
		}),
		copyToSent: (seqs) => ({
			text: sql.copyToSent,
			params: [JSON.stringify(seqs)]
		}),
		deleteOutbox: (seqs) => ({
			text: sql.deleteOutbox,
			params: [JSON.stringify(seqs)]
		}),
		postpone: (rows) => rows.map(({ seq, delayMs, error }) => ({
			text: sql.postpone,
			params: [
				delayMs,
				JSON.stringify(error),
				seq
			]
		})),
		lockOutbox: (seq) => ({
			text: sql.lockOutbox,
			params: [seq]
		}),
		refuseToFailed: ({ seq, reason, error, hold }) => ({
			text: sql.refuseToFailed,
			params: [
				Number(hold),
				reason,
				JSON.stringify(error),
				errorHash(error),
				seq
			]
		}),
		holdOutbox: ({ seq, error }) => ({
			text: sql.holdOutbox,
			params: [JSON.stringify(error), seq]
		}),
		recordRelay: (name, destination) => ({
			text: sql.recordRelay,
			params: [name, destination]
		}),
		relay: (name) => ({
			text: sql.relay,
			params: [name]
		}),
		join: ({ id, name, ttlMs, serves }) => ({
			text: sql.join,
			params: [
				id,
				ttlMs,
				name,
				serves
			]
		}),
		note: (id, inHand, alone, beat) => ({
			text: beat ? sql.beat : sql.note,
			params: [
				inHand,
				Number(alone),
				id
			]
		}),
		workers: plain(sql.workers),
		lockDead: plain(sql.lockDead),
		suspect: (seqs) => ({
			text: sql.suspect,
			params: [JSON.stringify(seqs)]
		}),
		crashed: (seqs) => ({
			text: sql.crashed,
			params: [JSON.stringify(seqs)]
		}),
		leave: (ids) => ({
			text: sql.leave,
			params: [JSON.stringify(ids)]
		}),
		subscribe: (consumer, type, ordered) => ({
			text: sql.subscribe,
			params: [
				consumer,
				encodeText(type),
				Number(ordered)
			]
		}),
		subscription: (consumer, type) => ({
			text: sql.subscription,
			params: [consumer, encodeText(type)]
		}),
		operator: operator(prefix)
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
/** lane and ordered: a message without a key has no order to keep. */
function place(message, ordered) {
	return [laneOf(message, ordered), Number(ordered && message.key !== null)];
}
function inboxValues({ consumer, message, ordered, attempts, starts, delayMs, error }) {
	const state = [
		attempts,
		starts,
		delayMs,
		error && JSON.stringify(error)
	];
	return [
		consumer,
		...columns(message),
		...state,
		...place(message, ordered)
	];
}
/** Receipt and inbox row for each consumer that has no receipt yet. */
async function deliver(sql, executor, { message, consumers, delayMs }, token) {
	const known = consumers.map(({ name, ordered }) => ({
		name,
		ordered
	}));
	const listening = await executor.query(sql.listening, [JSON.stringify(known), encodeText(message.type)]);
	let fresh = 0;
	for (const row of listening.rows) {
		const consumer = String(row["consumer"]);
		const { text, params } = receipt(sql.take, consumer, token, message);
		if ((await executor.query(text, params)).affected === 0) continue;
		fresh += 1;
		const values = inboxValues({
			consumer,
			message,
			ordered: asBoolean(row["ordered"]),
			attempts: 0,
			starts: 0,
			delayMs,
			error: null
		});
		await executor.query(sql.insertInbox, values);
	}
	return {
		consumers: listening.rows.length,
		fresh
	};
}
async function lookAt(sql, query, share, index) {
	const { table, scope, types, lanes, after } = share;
	const page = pageOf(share);
	const from = lanes.map((lane) => ({
		lane,
		after: encodeText(after.get(lane) ?? "")
	}));
	const which = [
		index,
		JSON.stringify(from),
		scope
	];
	return (table === "inbox" ? await query({
		text: sql.lookInbox,
		params: [
			...which,
			page,
			JSON.stringify(types.map(encodeText))
		]
	}) : await query({
		text: sql.lookOutbox,
		params: [...which, page]
	})).rows;
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
// src/core/audit.ts
const MAX_NOTE_BYTES = 1e3;
/** What is written down about an action. */
function auditOf(action, by = {}) {
	noOthers("by", by, ["actor", "note"]);
	const actor = by.actor === void 0 ? user() : text$1("actor", by.actor);
	return by.note === void 0 ? {
		action,
		actor
	} : {
		action,
		actor,
		note: text$1("note", by.note, MAX_NOTE_BYTES)
	};
}
function user() {
	try {
		return userInfo().username || "unknown";
	} catch {
		return "unknown";
	}
}
// src/core/cleanup.ts
/** Receipts that one step looks at. */
const STEP$1 = 1e3;
/**
* Deletes the old receipts of a consumer whose messages are finished, in small steps with pauses as long as the steps, so
* that at most half of one connection's time is used. Answers how many it deleted, or would delete.
*/
async function cleanup(store, clock, options) {
	noOthers("options", options, [
		"consumer",
		"olderThanMs",
		"dryRun",
		"signal",
		"onProgress",
		"by"
	]);
	const { olderThanMs, dryRun, signal, onProgress } = options;
	const consumer = text$1("consumer", options.consumer);
	if (!Number.isSafeInteger(olderThanMs) || olderThanMs <= 0) expected("olderThanMs", "a positive integer", olderThanMs);
	const audit = auditOf("cleanup", options.by);
	if (dryRun) return { receipts: await store.cleanable(consumer, olderThanMs) };
	let receipts = 0;
	let after;
	do {
		const begun = clock.monotonic();
		const step = await store.cleanup({
			kind: "receipts",
			consumer,
			after
		}, olderThanMs, STEP$1);
		receipts += step.deleted;
		after = step.after;
		onProgress?.({ receipts });
		if (after !== void 0) await pause(clock, clock.monotonic() - begun, signal);
	} while (after !== void 0 && !signal?.aborted);
	if (receipts > 0) await store.audit(audit, { consumer });
	return { receipts };
}
// src/core/consumer-options.ts
const NAMES$1 = [
	"receive",
	"order",
	"group",
	"onError",
	"concurrency",
	"timeoutMs",
	"lockTimeoutMs",
	"missingId",
	"onMismatch",
	"retry",
	"maxAgeMs",
	"retentionMs",
	"isolation"
];
const ISOLATIONS = [
	"read committed",
	"repeatable read",
	"serializable"
];
/** Checks the options and fills in the defaults. */
function consumerSettings(options, parallelWriters) {
	noOthers("options of consumer", options, NAMES$1);
	const { group, isolation, maxAgeMs } = options;
	if (group !== void 0) noOthers("group", group, ["size", "together"]);
	if (isolation !== void 0) oneOf("isolation", ISOLATIONS, isolation, isolation);
	const timeoutMs = positiveInteger("timeoutMs", options.timeoutMs, 3e4);
	const order = oneOf("order", [
		"none",
		"wait",
		"skip"
	], options.order, "none");
	if (order !== "none" && options.receive === "direct") expected("receive", `'store' together with order, because only stored messages have an order`, options.receive);
	const { concurrency } = options;
	return Object.freeze({
		receive: oneOf("receive", ["direct", "store"], options.receive, order === "none" ? "direct" : "store"),
		order,
		groupSize: group && positiveInteger("group.size", group.size, 1),
		together: together(group, order),
		onError: oneOf("onError", ["store", "rollback"], options.onError, "store"),
		concurrency: concurrency === void 0 ? void 0 : positiveInteger("concurrency", concurrency, 1),
		timeoutMs,
		lockTimeoutMs: positiveInteger("lockTimeoutMs", options.lockTimeoutMs, parallelWriters ? 2e3 : timeoutMs),
		missingId: missingIdPolicy(options.missingId),
		onMismatch: oneOf("onMismatch", ["duplicate", "conflict"], options.onMismatch, "duplicate"),
		retry: retryPolicy(options.retry ?? {}),
		maxAgeMs: maxAgeMs === void 0 ? void 0 : positiveInteger("maxAgeMs", maxAgeMs, 1),
		retentionMs: retention(options),
		isolation
	});
}
function together(group, order) {
	const value = group?.together ?? false;
	if (typeof value !== "boolean") expected("group.together", "true or false", value);
	if (value && order !== "none") expected("group.together", "false together with order", value);
	return value;
}
const DAY_MS = 864e5;
function retention({ retentionMs = 30 * DAY_MS, maxAgeMs }) {
	if (retentionMs === "forever") return retentionMs;
	const ms = spanMs("retentionMs", retentionMs);
	if (maxAgeMs !== void 0 && maxAgeMs > ms) expected("maxAgeMs", `at most retentionMs (${ms}), because older receipts are forgotten`, maxAgeMs);
	return ms;
}
function missingIdPolicy(policy = "reject") {
	if (typeof policy !== "function" && policy !== "reject" && policy !== "hash") expected("missingId", `'reject', 'hash' or a function`, policy);
	return policy;
}
/** Checks a retry policy and fills in the defaults. */
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
/** Whether data of this content type is JSON; without one it is. */
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
/** Calls the handlers in turn, or together; those of many get their messages as one array, where the first of them stands. */
async function callHandlers(jobs, scope) {
	if (scope.together && jobs.length > 1) return callTogether(jobs, scope);
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
async function callTogether(jobs, scope) {
	const many = new Set(jobs.map((job) => job.handler).filter((handler) => handler.kind === "many"));
	const ones = jobs.filter((job) => job.handler.kind === "one");
	const failed = (await Promise.allSettled([...ones.map((job) => callHandlers([job], scope)), ...[...many].map((handler) => callHandlers(jobs.filter((job) => job.handler === handler), {
		...scope,
		together: false
	}))])).find((each) => each.status === "rejected");
	if (failed !== void 0) throw failed.reason;
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
/** How long a record is insisted on. */
const INSIST_MS = 6e5;
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
				const { together } = this.#settings;
				await callHandlers(jobs, {
					tx: unit.tx,
					buffer,
					signal: deadline.signal,
					logger,
					together
				});
				return await buffer.flush(unit);
			} catch (error) {
				progress.thrown = error;
				throw error;
			} finally {
				buffer.close();
			}
		};
		const resolving = this.#unknownSince !== void 0;
		const end = await this.#body({
			unit,
			earlier: this.#earlier,
			resolving,
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
/**
* As `persist`, and again while the database is away: for what nobody else will write down, because nothing is left that would
* bring the message back.
*/
async function insist(engine, write) {
	const began = engine.clock.monotonic();
	for (let run = 1;; run++) try {
		return await persist(engine, write);
	} catch (error) {
		if (!(isHapaxError(error, "store-unavailable") || isHapaxError(error, "commit-unknown")) || engine.clock.monotonic() - began > INSIST_MS) throw error;
		await pause(engine.clock, Math.min(5e3, 50 * 2 ** run) * (.5 + engine.random.number() / 2));
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
	#retryOf;
	constructor(engine, consumer, settings, retryOf) {
		this.#engine = engine;
		this.#consumer = consumer;
		this.#settings = settings;
		this.#retryOf = retryOf;
	}
	/**
	* Records the failure of a delivery: receipt + inbox row, or receipt + failed row. If a receipt is there already, its
	* token says whose: the handler's (it committed by itself), ours (recorded before an unknown commit), or another's.
	*/
	async firstDelivery(stored, error, attempt, handlerTokens = /* @__PURE__ */ new Set()) {
		const verdict = this.#judge(stored, error, attempt);
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
		await insist(this.#engine, () => unit(this.#engine, this.#options(), { kind: "plain" }, async () => ({
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
			return this.#storeEach(messages, starts);
		}
	}
	/** One by one. With order, nothing may be stored before what came before it. */
	async #storeEach(messages, starts) {
		const outcomes = [];
		for (const message of messages) {
			const last = outcomes.at(-1);
			const behind = this.#settings.order !== "none" && last?.status === "busy";
			outcomes.push(...behind ? [last] : await this.store([message], starts));
		}
		return outcomes;
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
		return isFeared(error) ? this.broken(row.message, error, attempts) : this.duplicate(row.message);
	}
	/** A row that was in a group which was cut off, and that nobody could take afterwards: gone, or in other hands. */
	async afterGroup(row, error) {
		const { store } = this.#engine;
		return await insist(this.#engine, () => store.inboxSeq(this.#consumer, row.message.messageKey)) === row.seq ? void 0 : this.broken(row.message, error, row.attempts + 1);
	}
	async #onItsRow(row, error, attempts) {
		const verdict = this.#judge(row.message, error, attempts);
		return (verdict.kind === "fail" ? await this.#fail(row, verdict, attempts, isHapaxError(error, "broken-atomicity") ? insist : persist) : await this.#reschedule({
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
			error: new HapaxError("crash-loop", `the process ended ${row.crashes} times while it worked on this message and on nothing else`)
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
	#judge({ type }, error, attempt) {
		return judge(error, attempt, this.#retryOf(type), this.#engine.random);
	}
	#row(message, attempts) {
		return {
			consumer: this.#consumer,
			message,
			ordered: this.#settings.order !== "none",
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
	#fail(row, verdict, attempts, write = persist) {
		const hold = row.ordered && this.#settings.order === "wait";
		const failed = {
			seq: row.seq,
			attempts,
			reason: verdict.reason,
			error: recordError(verdict.error),
			hold
		};
		return write(this.#engine, () => this.#engine.store.fail(failed));
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
/** Whether the handler may have committed by itself: it did, or it was cut off and nobody could look. */
function isFeared(error) {
	if (isHapaxError(error, "broken-atomicity")) return true;
	return isHapaxError(error, "handler-timeout") && error.fields["undone"] !== true;
}
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
/** After this many crashes while nothing else ran, a message is held to be what ends the process. */
const MAX_CRASHES = 3;
/** Works messages that wait in the inbox: the rows that could be claimed are the right to run. */
var InboxWork = class {
	#engine;
	#consumer;
	#settings;
	#recorder;
	#handlers;
	constructor(engine, consumer, settings, recorder, handlers) {
		this.#engine = engine;
		this.#consumer = consumer;
		this.#settings = settings;
		this.#recorder = recorder;
		this.#handlers = handlers;
	}
	/**
	* Runs handlers for rows in one transaction; when one of them fails, in smaller ones. A row without an outcome was not
	* ours: settled or locked by another worker, or behind its key.
	*/
	async work(seqs, signal) {
		const started = this.#engine.clock.monotonic();
		const ours = {
			claimed: /* @__PURE__ */ new Map(),
			settled: /* @__PURE__ */ new Map()
		};
		const attempted = await new Attempt(this.#engine, this.#settings, {
			opening: (_token, resolving) => ({
				kind: "claim",
				seqs,
				locked: resolving ? "wait" : "skip"
			}),
			body: (running) => this.#body(running, ours),
			onUnknown: () => this.#unknown([...ours.claimed.values()]),
			signal
		}).run();
		const claimed = [...ours.claimed.values()];
		const outcomes = attempted.kind === "done" ? await this.#ended(attempted.value, claimed, started, signal) : await this.#failed(claimed, attempted, signal);
		if (ours.settled.size === 0) return outcomes;
		return new Map([...outcomes, ...this.#processed([...ours.settled.values()], started)]);
	}
	async #body({ unit, call, resolving }, ours) {
		for (const [seq, row] of ours.claimed) if (resolving && !unit.present.has(seq)) ours.settled.set(seq, row);
		ours.claimed = unit.claimed;
		if (unit.claimed.size === 0) return {
			value: { kind: "processed" },
			writes: void 0
		};
		const rows = [...unit.claimed.values()];
		const looping = rows.filter((row) => row.crashes >= MAX_CRASHES);
		if (looping.length > 0) return {
			value: {
				kind: "crash-loop",
				rows: looping
			},
			writes: void 0
		};
		const jobs = [];
		try {
			for (const row of rows) jobs.push(await this.#job(row));
		} catch (error) {
			return {
				value: {
					kind: "undecodable",
					error
				},
				writes: void 0
			};
		}
		return {
			value: { kind: "processed" },
			writes: await call(jobs)
		};
	}
	async #job(row) {
		const preparing = prepareJob(this.#handlers.get(row.message.type), row.message, row.attempts + 1);
		return {
			...preparing instanceof Promise ? await preparing : preparing,
			row
		};
	}
	async #ended(ended, rows, started, signal) {
		if (ended.kind === "processed") return this.#processed(rows, started);
		if (ended.kind === "undecodable") return this.#failed(rows, {
			kind: "failed",
			error: ended.error
		}, signal);
		const outcomes = /* @__PURE__ */ new Map();
		for (const row of ended.rows) outcomes.set(row.seq, await this.#recorder.crashed(row));
		return outcomes;
	}
	#processed(rows, started) {
		const { events, clock } = this.#engine;
		const durationMs = clock.monotonic() - started;
		for (const { message, attempts } of rows) {
			const attempt = attempts + 1;
			events.emit("processed", () => ({
				consumer: this.#consumer,
				message: ref(message),
				attempt,
				durationMs
			}));
		}
		return new Map(rows.map((row) => [row.seq, PROCESSED$1]));
	}
	async #failed(rows, { kind, error }, signal) {
		const broken = kind === "failed" && isHapaxError(error, "broken-atomicity");
		if (rows.length > 1 && kind !== "lost" && !broken) return this.#smaller(rows, asError$1(error), signal);
		const outcomes = /* @__PURE__ */ new Map();
		for (const row of rows) outcomes.set(row.seq, await this.#record(row, kind, asError$1(error)));
		return outcomes;
	}
	#record(row, kind, error) {
		if (kind === "busy") return this.#recorder.putBack(row.message, "busy", error);
		return kind === "lost" ? this.#recorder.lost(row, error) : this.#recorder.fromInbox(row, error);
	}
	#unknown(rows) {
		const messages = rows.map((row) => ref(row.message));
		this.#engine.events.emit("commit-unknown", () => ({
			consumer: this.#consumer,
			messages
		}));
	}
	async #smaller(rows, error, signal) {
		const outcomes = /* @__PURE__ */ new Map();
		const jobs = rows.map((row) => ({
			row,
			handler: this.#handlers.get(row.message.type)
		}));
		for (const part of smaller(jobs)) {
			const seqs = part.map(({ row }) => row.seq);
			for (const [seq, result] of await this.work(seqs, signal)) outcomes.set(seq, result);
		}
		for (const row of isFeared(error) ? rows.filter(({ seq }) => !outcomes.has(seq)) : []) {
			const result = await this.#recorder.afterGroup(row, error);
			if (result !== void 0) outcomes.set(row.seq, result);
		}
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
/** A consumer and where it gets its messages from; made by `consumer.from`. */
var Source = class {
	consumer;
	subscription;
	prefetch;
	constructor(consumer, subscription, options) {
		noOthers("options of from", options, ["prefetch", "prefetchBytes"]);
		if (typeof subscription?.open !== "function") expected("subscription", "a subscription, for example a queue of a broker", subscription);
		for (const name of ["prefetch", "prefetchBytes"]) positiveInteger(name, options[name], 1);
		this.consumer = consumer;
		this.subscription = subscription;
		this.prefetch = options;
	}
};
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
	#lastStored = Promise.resolve();
	#started = false;
	/** Made by `hapax.consumer`. */
	constructor(engine, name, options) {
		this.name = consumerName(name);
		this.#engine = engine;
		this.#settings = consumerSettings(options, engine.store.features.parallelWriters);
		const retryOf = (type) => this.#handlers.get(type)?.retry ?? this.#settings.retry;
		this.#recorder = new Recorder(engine, name, this.#settings, retryOf);
		this.#taker = new Taker(engine, name, this.#settings, this.#recorder);
		this.#inbox = new InboxWork(engine, name, this.#settings, this.#recorder, this.#handlers);
	}
	/** Registers the handler of a message type. */
	on(type, handler, options = {}) {
		return this.#register({
			kind: "one",
			retry: this.#retry(options),
			type,
			call: handler
		});
	}
	/** Registers a handler that takes the messages of a group as one array. */
	onMany(type, handler, options = {}) {
		return this.#register({
			kind: "many",
			retry: this.#retry(options),
			type,
			call: handler
		});
	}
	/** A handler's own policy takes what it leaves out from the consumer's. */
	#retry(options) {
		noOthers("options of on", options, ["retry"]);
		return options.retry && retryPolicy({
			...this.#settings.retry,
			...options.retry
		});
	}
	/** This consumer, fed from a subscription: `hapax.worker({ consume: [billing.from(queue)] })`. */
	from(subscription, options = {}) {
		return new Source(this, subscription, options);
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
		const unique = distinct$1(entries);
		const groups = inGroups(unique, this.#settings.receive === "store" ? STORE_SIZE$1 : this.groupSize);
		const results = [];
		await inParallel(groups, this.ordered ? 1 : this.#settings.concurrency ?? 10, async (group, index) => {
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
	/** How many transactions it may run at once; undefined: what the pool allows. */
	get concurrency() {
		return this.#settings.concurrency;
	}
	/** Whether the order of keys counts. */
	get ordered() {
		return this.#settings.order !== "none";
	}
	get settings() {
		return this.#settings;
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
	/** Works rows of the inbox; called by a worker. A row without an outcome was not ours. */
	work(seqs, signal) {
		return this.#inbox.work(seqs, signal);
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
			if (outcomes.get(entry.stored)?.status !== "stored") continue;
			const seq = await this.#engine.store.inboxSeq(this.name, entry.stored.messageKey);
			const worked = seq && (await this.#guarded([entry.stored], () => this.work([seq]))).get(seq);
			if (worked) outcomes.set(entry.stored, worked);
		}
	}
	async #storeAll(entries, starts, outcomes) {
		const messages = entries.map((entry) => entry.stored);
		const storing = () => this.#guarded(messages, () => this.#recorder.store(messages, starts));
		const results = await (this.ordered ? this.#inTurn(storing) : storing());
		for (const [index, entry] of entries.entries()) outcomes.set(entry.stored, results[index]);
	}
	/** With order, what arrives later is stored later. */
	#inTurn(work) {
		const turn = this.#lastStored.then(work, work);
		this.#lastStored = turn.catch(() => {});
		return turn;
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
/** How many deliveries one transaction stores. */
const STORE_SIZE$1 = 500;
const storedOf = ({ stored }) => stored;
function consumerName(name) {
	if (/[\u0000-\u001f\u007f]/.test(text$1("name", name))) expected("name", "a name without control characters", name);
	return name;
}
function distinct$1(entries) {
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
// src/core/membership.ts
/**
* This worker among the others: a heartbeat on its row, and which lanes are whose. Lanes only share the work; rows decide
* who may do it, so that it does not matter when two workers disagree for a moment.
*/
var Membership = class {
	#options;
	#beatMs;
	#ttlMs;
	#id = "";
	#others = [];
	#lanes = /* @__PURE__ */ new Map();
	#heardAt = 0;
	#state = "new";
	#cancel = () => {};
	#beating = Promise.resolve();
	constructor(options) {
		this.#options = options;
		this.#beatMs = options.takeoverMs / 5;
		this.#ttlMs = options.takeoverMs * 2 / 3;
	}
	/** Says hello, under a new random name, and begins to beat. */
	async join() {
		await this.#hello();
		await this.#beat();
		this.#state = "joined";
		this.#schedule();
	}
	/** Whether this worker was heard recently enough for the others to count on it. */
	get alive() {
		return this.#state === "joined" && this.#options.clock.monotonic() - this.#heardAt < this.#ttlMs;
	}
	/** Whoever slept past its heartbeat is dead to the others: it says hello again before it goes on. */
	async ensureAlive() {
		if (!this.alive) await this.#inTurn();
	}
	/** Notes what the worker is about to run. After a beat that is under way, which may say less. */
	note() {
		return this.#inTurn(async () => {
			const { seqs, alone } = this.#options.inHand();
			if (!await this.#options.store.note(this.#id, seqs, alone)) await this.#beat();
		});
	}
	/** The lanes of this worker among those that handle this type of this consumer. */
	lanesOfType(consumer, type) {
		return this.#lanesOf(`type ${consumer} ${type}`, (serves) => serves.consumers[consumer]?.includes(type) ?? false);
	}
	lanesOfRelay(relay) {
		return this.#lanesOf(`relay ${relay}`, (serves) => serves.relays.includes(relay));
	}
	/** Whether something that one worker does at a time is for this one to do. */
	owns(thing, who) {
		return ownerOf(thing, this.#who(who)) === this.#id;
	}
	/** Goes, so that others take over at once. */
	async leave() {
		this.#state = "left";
		this.#cancel();
		await this.#beating;
		try {
			await this.#options.store.leave(this.#id);
		} catch (error) {
			this.#options.report(asError$1(error));
		}
	}
	#lanesOf(name, who) {
		let lanes = this.#lanes.get(name);
		if (lanes === void 0) {
			lanes = lanesOf(this.#id, this.#who(who));
			this.#lanes.set(name, lanes);
		}
		return lanes;
	}
	#who(who) {
		const others = this.#others.filter(({ serves }) => who(serves)).map(({ id }) => id);
		return [this.#id, ...others];
	}
	async #hello() {
		const { store, serves, random } = this.#options;
		const id = random.token();
		const name = `${hostname()}/${process.pid}`;
		await store.join({
			id,
			name,
			ttlMs: Math.ceil(this.#ttlMs),
			serves: JSON.stringify(serves)
		});
		this.#id = id;
		this.#lanes.clear();
	}
	#schedule() {
		if (this.#state !== "joined") return;
		const { clock, random } = this.#options;
		this.#cancel = clock.after(this.#beatMs * (.9 + random.number() / 10), () => {
			this.#inTurn().then(() => this.#schedule(), (error) => {
				this.#options.report(asError$1(error));
				this.#schedule();
			});
		});
	}
	/** One beat or note at a time. */
	#inTurn(work = () => this.#beat()) {
		const turn = this.#beating.then(() => this.#state === "left" ? void 0 : work());
		this.#beating = turn.catch(() => {});
		return turn;
	}
	async #beat() {
		const { store, clock, inHand } = this.#options;
		const began = clock.monotonic();
		const { seqs, alone } = inHand();
		let workers = await store.beat(this.#id, seqs, alone);
		if (workers === void 0) {
			this.#options.buried();
			await this.#hello();
			workers = await store.beat(this.#id, inHand().seqs, inHand().alone) ?? [];
		}
		this.#heardAt = began;
		this.#update(workers);
		if (workers.some((worker) => !worker.alive && worker.id !== this.#id)) await this.#bury();
	}
	#update(workers) {
		const others = workers.filter((worker) => worker.alive && worker.id !== this.#id);
		if (others.length === this.#others.length && others.every(({ id }, index) => id === this.#others[index]?.id)) return;
		this.#others = others.map((other) => ({
			id: other.id,
			serves: servesOf(other)
		}));
		this.#lanes.clear();
		this.#options.changed();
	}
	async #bury() {
		try {
			if (await this.#options.store.bury() > 0) this.#options.changed();
		} catch (error) {
			if (!isHapaxError(error, "transaction-conflict")) throw error;
		}
	}
};
/** What a worker's row says that it serves; what another version wrote may be something else. */
function servesOf({ serves }) {
	try {
		const { consumers, relays } = JSON.parse(serves);
		return {
			consumers: isTypes(consumers) ? consumers : {},
			relays: Array.isArray(relays) ? relays : []
		};
	} catch {
		return {
			consumers: {},
			relays: []
		};
	}
}
function isTypes(value) {
	return typeof value === "object" && value !== null && Object.values(value).every(Array.isArray);
}
// src/core/doctor-workers.ts
/** Whether everything that waits, or may come, is served by a worker that is alive. */
function workerFindings(status, subscriptions) {
	const { workers, consumers, relays } = status;
	const live = workers.filter(({ alive }) => alive).map((worker) => ({
		id: worker.id,
		serves: servesOf(worker)
	}));
	const dead = workers.filter(({ alive }) => !alive).map(deadFinding);
	if (live.length > 0) {
		const names = /* @__PURE__ */ new Set([...consumers.map(({ consumer }) => consumer), ...subscriptions.map(({ consumer }) => consumer)]);
		return [
			...dead,
			ok$1(`${live.length} alive`),
			...[...names].sort().flatMap((name) => consumerFindings(name, status, subscriptions, live)),
			...relays.flatMap((relay) => relayFindings(relay, live))
		];
	}
	if (!(consumers.some((each) => each.waiting + each.retrying > 0) || relays.some(({ waiting }) => waiting > 0))) return [...dead, ok$1("none is alive, and nothing waits")];
	const advice = "Start a worker (hapax.worker(…).start(), or npx hapax relay).";
	return [...dead, {
		check: "workers",
		level: "error",
		message: "messages wait, and no worker is alive",
		advice
	}];
}
function deadFinding({ name, silentMs, inHand }) {
	return {
		check: "workers",
		level: "warning",
		message: `${`the worker ${name} has not been heard for ${Math.round(silentMs / 1e3)} s`} and has ${messages(inHand)} in hand`,
		advice: "A live worker takes over what it had. If it stays in this list, no worker is running."
	};
}
function consumerFindings(name, { consumers }, subscriptions, live) {
	const { waiting = 0, retrying = 0 } = consumers.find(({ consumer }) => consumer === name) ?? {};
	const types = subscriptions.filter(({ consumer }) => consumer === name).map(({ type }) => type);
	const serving = live.filter(({ serves }) => Object.hasOwn(serves.consumers, name));
	if (serving.length === 0) return unserved(name, waiting + retrying, types.length > 0);
	const handles = ({ serves }, type) => serves.consumers[name]?.includes(type) ?? false;
	const orphans = types.filter((type) => !serving.some((worker) => handles(worker, type)));
	const shares = types.map((type) => serving.filter((worker) => handles(worker, type)));
	return [served(name, shares.length > orphans.length ? shares : [serving], serving.length), ...orphaned(name, orphans)];
}
function unserved(name, open, subscribed) {
	const forget = `if it is not deployed any more, npx hapax consumers remove ${name}`;
	if (open > 0) return [{
		check: "workers",
		level: "error",
		message: `${messages(open)} of the consumer ${name} ${open === 1 ? "waits" : "wait"}, and no live worker serves it`,
		advice: `Start a worker that consumes it${subscribed ? `; ${forget} keeps more from coming` : ""}.`
	}];
	if (!subscribed) return [];
	return [{
		check: "workers",
		level: "warning",
		message: `no live worker serves the consumer ${name}; nothing waits for it yet`,
		advice: `Start a worker that consumes it; ${forget}.`
	}];
}
function orphaned(name, types) {
	if (types.length === 0) return [];
	return [{
		check: "workers",
		level: "warning",
		message: `no live worker of the consumer ${name} handles ${types.join(", ")}, which it has subscribed to`,
		advice: "Such messages wait until a worker handles the type. After a deployment that has dropped it for good: stop the workers, npx hapax consumers remove, and start them."
	}];
}
function relayFindings({ relay, waiting }, live) {
	const serving = live.filter(({ serves }) => serves.relays.includes(relay));
	if (serving.length > 0) return [served(`relay ${relay}`, [serving], serving.length)];
	if (waiting === 0) return [];
	return [{
		check: "workers",
		level: "error",
		message: `${messages(waiting)} of the relay ${relay} ${waiting === 1 ? "waits" : "wait"}, and no live worker serves it`,
		advice: `Start a worker with this relay, or npx hapax relay --relay ${relay}.`
	}];
}
/** How many workers share the lanes, and how evenly; each share is of those who handle one type. */
function served(name, shares, workers) {
	const sizes = shares.flatMap((share) => {
		const ids = share.map(({ id }) => id);
		return ids.map((id) => lanesOf(id, ids).length);
	});
	const [least, most] = [Math.min(...sizes), Math.max(...sizes)];
	const each = least === most ? `${least}` : `${least} to ${most}`;
	return {
		...ok$1(`${name} is served by ${workers === 1 ? "1 worker" : `${workers} workers`}, each with ${each} of 64 lanes`),
		check: "lanes"
	};
}
function messages(count) {
	return count === 1 ? "1 message" : `${count} messages`;
}
function ok$1(message) {
	return {
		check: "workers",
		level: "ok",
		message,
		advice: ""
	};
}
// src/core/doctor.ts
/** A message that waits longer than this in the outbox is worth a look. */
const OUTBOX_MS = 3e5;
/** Looks at the store and at what the workers made of it. A look that fails is a finding as well. */
async function doctor(store, now) {
	const schema = await attempt("schema", () => schemaFindings(store));
	if (schema.some(({ level }) => level === "error")) return schema;
	return [
		...schema,
		...await attempt("store", () => store.checkup()),
		...await attempt("status", async () => {
			const status = await store.status();
			return [...workerFindings(status, await store.subscriptions()), ...statusFindings(status, now())];
		}),
		...await attempt("held keys", () => keyFindings(store))
	];
}
async function attempt(check, look) {
	try {
		return await look();
	} catch (error) {
		return [{
			check,
			level: "error",
			message: messageOf(asError$1(error)),
			advice: adviceOn(error)
		}];
	}
}
function adviceOn(error) {
	if (isHapaxError(error, "store-unavailable")) return "See to it that the database can be reached, and run this again.";
	if (isHapaxError(error, "schema-drift")) return "Use the version of hapax that made the schema, or another schema.";
	if (isDenied(error)) return "Run this as the user of hapax, or grant this user what it may not do.";
	return "Run this again; if it stays, the message says what the database did not like.";
}
/** Whether the database said that this user may not. */
function isDenied(error) {
	const code = error?.code;
	return typeof code === "string" && /^(42501|EACCES|EPERM|ER_\w*ACCESS_DENIED)/.test(code);
}
async function schemaFindings(store) {
	const missing = (await store.migrations()).filter(({ applied }) => !applied);
	if (missing.length === 0) return [ok("schema", "every migration is applied")];
	return [{
		check: "schema",
		level: "error",
		message: `these migrations are missing: ${missing.map(({ version, name }) => `${version} (${name})`).join(", ")}`,
		advice: "Run npx hapax migrate."
	}];
}
function statusFindings(status, now) {
	return [...status.relays.flatMap((relay) => outboxFinding(relay, now)), ...failed(status)];
}
function outboxFinding({ relay, oldestAt }, now) {
	const waitedMs = oldestAt === null ? 0 : now - oldestAt.getTime();
	if (waitedMs <= OUTBOX_MS) return [ok("outbox", `the relay ${relay} keeps up`)];
	return [{
		check: "outbox",
		level: "warning",
		message: `the oldest message of the relay ${relay} has waited for ${seconds(waitedMs)}`,
		advice: "Look at the workers of this relay, its broker, and hapax keys list."
	}];
}
function failed({ consumers, relays }) {
	const count = [...consumers, ...relays].reduce((sum, each) => sum + each.failed, 0);
	if (count === 0) return [ok("failed", "no message waits for a decision")];
	return [{
		check: "failed",
		level: "warning",
		message: count === 1 ? "1 failed message waits for a decision" : `${count} failed messages wait for a decision`,
		advice: "Look at hapax failed list, then retry, edit or discard them."
	}];
}
async function keyFindings(store) {
	const held = await store.heldKeys(1e3);
	if (held.length === 0) return [ok("held keys", "no key waits behind a failed message")];
	const behind = held.reduce((sum, { waiting }) => sum + waiting, 0);
	const [longest] = held;
	return [{
		check: "held keys",
		level: "warning",
		message: `${held.length} keys wait behind a failed message, ${behind} messages in all; ${longest?.key} of ${longest?.scope} since ${longest?.heldAt.toISOString()}`,
		advice: "Retry, edit or discard the failed message, or let the key go on: hapax keys list, hapax keys release."
	}];
}
function ok(check, message) {
	return {
		check,
		level: "ok",
		message,
		advice: ""
	};
}
function seconds(ms) {
	return `${Math.round(ms / 1e3)} s`;
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
// src/core/bulk.ts
const PAGE = 500;
/** Changes rows one by one, oldest first, so that those of one key keep their order. One bad row stops no other. */
async function bulk(clock, work, options) {
	const { limit, perSecond, onResult, signal } = checked(options);
	const counts = {
		done: 0,
		gone: 0,
		errors: 0
	};
	const begun = clock.monotonic();
	let count = 0;
	for await (const seq of rows(work, limit)) {
		if (perSecond !== void 0) {
			const waitMs = begun + count * 1e3 / perSecond - clock.monotonic();
			if (waitMs > 0) await pause(clock, waitMs, signal);
		}
		if (signal?.aborted) return {
			...counts,
			stopped: true
		};
		const result = await changed(work, seq);
		count += 1;
		counts[result.result === "error" ? "errors" : result.result] += 1;
		onResult?.(result);
	}
	return {
		...counts,
		stopped: false
	};
}
async function* rows(work, limit) {
	const last = await work.newest();
	if (last === void 0) return;
	let left = limit;
	let after;
	while (left > 0) {
		const page = await work.page(after, Math.min(PAGE, left));
		for (const seq of page) {
			if (BigInt(seq) > BigInt(last)) return;
			yield seq;
		}
		if (page.length === 0) return;
		after = page.at(-1);
		left -= page.length;
	}
}
async function changed(work, seq) {
	try {
		return {
			seq,
			result: await work.change(seq) ? "done" : "gone"
		};
	} catch (error) {
		if (isHapaxError(error, "store-unavailable") || isHapaxError(error, "schema-missing")) throw error;
		return {
			seq,
			result: "error",
			error: asError$1(error)
		};
	}
}
function checked(options) {
	noOthers("options", options, [
		"by",
		"limit",
		"perSecond",
		"onResult",
		"signal"
	]);
	const { limit = Number.POSITIVE_INFINITY, perSecond } = options;
	if (!(limit > 0) || limit !== Number.POSITIVE_INFINITY && !Number.isSafeInteger(limit)) expected("limit", "a positive integer", limit);
	if (perSecond !== void 0) numberFrom("perSecond", .001, perSecond, 1);
	return {
		...options,
		limit
	};
}
/** The rows' number as text, as the store gave it. */
function checkedSeq(seq) {
	if (typeof seq !== "string" || !/^[1-9]\d{0,18}$/.test(seq)) expected("seq", "a whole number as text", seq);
	return seq;
}
/** An age: a number of milliseconds, of any length. */
function age(name, ms) {
	if (ms !== void 0 && !(Number.isSafeInteger(ms) && ms >= 0)) expected(name, "a whole number of at least 0", ms);
	return ms;
}
/** How many rows of a list. */
function pageSize(limit) {
	const size = limit ?? 50;
	if (!Number.isSafeInteger(size) || size <= 0) expected("limit", "a positive integer", size);
	if (size > 1e3) expected("limit", "at most 1000", size);
	return size;
}
// src/core/failed.ts
/**
* The failed store: look, try again, change, or give up. Of several people who do something to one message at the same
* time one succeeds; the others get `not-found`. Everything that is done is written to the audit with it.
*
* `commit-unknown`: the link broke during the commit, and the message is not there any more. It was done, by this call or
* by somebody else at the same moment; `explain` shows which. It is never done twice.
*/
var FailedStore = class {
	#options;
	/** Made by `createHapax`. */
	constructor(options) {
		this.#options = options;
	}
	get #store() {
		return this.#options.store;
	}
	/** A page of failed messages, newest first; `before` takes the `seq` of the last one of the page before. */
	async list(query = {}) {
		const { before, limit, ...where } = query;
		const filter = {
			...checkedWhere$1(where),
			limit: pageSize(limit)
		};
		return this.#store.failedList(before === void 0 ? filter : {
			...filter,
			before: checkedSeq(before)
		});
	}
	/** How many there are. */
	async count(where = {}) {
		return this.#store.failedCount(checkedWhere$1(where));
	}
	/** Failed messages that look alike, the largest group first. */
	async groups(query = {}) {
		const { limit, ...where } = query;
		return this.#store.failedGroups(checkedWhere$1(where), pageSize(limit));
	}
	/** One failed message, or undefined. */
	async get(seq) {
		return this.#store.failedGet(checkedSeq(seq));
	}
	/**
	* Tries a message again under its own id, due at once: from its place if it holds its key, else at the end of its key.
	* Rejects with `not-found` if it is not there, or was replaced.
	*/
	async retry(seq, by) {
		if (!await this.#retry(checkedSeq(seq), auditOf("retry", by))) throw notFound$1(seq);
	}
	/** Retries all of these, oldest first. */
	async retryAll(where, options = {}) {
		const audit = auditOf("retry", options.by);
		return this.#all(where, options, (seq) => this.#retry(seq, audit));
	}
	/**
	* Puts a message with other data in the place of a failed one. It has an id of its own, because what came under the old
	* id stays what it was; `causationId` names the old one, which stays in the failed store as replaced.
	* Rejects with `not-found` if it is not there, or was replaced before, and with `conflict` if the id was used before.
	*/
	async edit(seq, data, options = {}) {
		noOthers("options", options, ["by", "id"]);
		const audit = auditOf("edit", options.by);
		const id = options.id === void 0 ? this.#options.mintId() : text$1("id", options.id, MAX_TEXT_BYTES);
		const failed = await this.#store.failedGet(checkedSeq(seq));
		if (failed === void 0) throw notFound$1(seq);
		const message = edited(failed.message, id, data, this.#options.maxBytes);
		if (!await this.#store.failedEdit(seq, message, audit)) throw notFound$1(seq);
		this.#options.wake();
		return { id };
	}
	/** Deletes a message for good; its receipt stays, so a redelivery is a duplicate. Rejects with `not-found`. */
	async discard(seq, by) {
		if (!await this.#discard(checkedSeq(seq), auditOf("discard", by))) throw notFound$1(seq);
	}
	/** Discards all of these, oldest first. */
	async discardAll(where, options = {}) {
		const audit = auditOf("discard", options.by);
		return this.#all(where, options, (seq) => this.#discard(seq, audit));
	}
	async #retry(seq, audit) {
		const there = await this.#store.failedRetry(seq, audit);
		if (there) this.#options.wake();
		return there;
	}
	/** What waits behind a discarded message may go on. */
	async #discard(seq, audit) {
		const there = await this.#store.failedDiscard(seq, audit);
		if (there) this.#options.wake();
		return there;
	}
	#all(where, options, change) {
		const which = checkedWhere$1(where);
		const newest = async () => (await this.#store.failedList({
			...which,
			limit: 1
		})).at(0)?.seq;
		const page = (after, limit) => this.#store.failedSeqs(which, after, limit);
		return bulk(this.#options.clock, {
			newest,
			page,
			change
		}, options);
	}
};
const WHERE = [
	"origin",
	"consumer",
	"type",
	"reason",
	"errorHash",
	"olderThanMs",
	"newerThanMs",
	"replaced"
];
function checkedWhere$1(where) {
	noOthers("query", where, WHERE);
	oneOf("origin", ["inbox", "outbox"], where.origin, "inbox");
	age("olderThanMs", where.olderThanMs);
	age("newerThanMs", where.newerThanMs);
	return where;
}
/** The message of a failed one with other data. Its data is JSON, whatever the old one's was. */
function edited(old, id, data, maxBytes) {
	const { correlationId = old.id, ...others } = unpackAttributes(old);
	const json = isJson(others.datacontenttype) ? {} : { datacontenttype: "application/json" };
	const attributes = packAttributes({
		...others,
		...json,
		correlationId,
		causationId: old.id
	});
	const bytes = Buffer.from(jsonOf(data));
	const size = bytes.byteLength + Buffer.byteLength(attributes);
	if (size > maxBytes) throw new HapaxError("too-large", `expected a message of at most ${maxBytes} bytes, got ${size}`, { fields: { bytes: size } });
	const { source, type, key } = old;
	return {
		messageKey: messageKey(source, id),
		source,
		id,
		type,
		key,
		attributes,
		data: bytes,
		fingerprint: fingerprint(bytes)
	};
}
function jsonOf(data) {
	let reason = "";
	try {
		const json = JSON.stringify(data);
		if (json !== void 0) return json;
	} catch (error) {
		reason = `: ${messageOf(asError$1(error))}`;
	}
	throw new HapaxError("invalid-payload", `expected data to be a JSON value, got ${describe(data)}${reason}`);
}
function notFound$1(seq) {
	return new HapaxError("not-found", `there is no failed message ${seq}, or it was replaced`, { fields: { seq } });
}
// src/core/floor.ts
/**
* Where the messages of a process run. Many may be on the floor at once; a message that is suspected of ending its process
* runs alone, so that it takes no others along, and so that it is known who it was.
*/
var Floor = class {
	#clock;
	#listeners = /* @__PURE__ */ new Set();
	#waiting = [];
	#count = 0;
	#bytes = 0;
	#alone = false;
	/** Somebody did not get in for want of room. */
	#tight = false;
	/** Who wants to have it empty, and since when. */
	#closed;
	#openedAt;
	constructor(clock) {
		this.#clock = clock;
		this.#openedAt = clock.monotonic();
	}
	/** Called when somebody who waits for the floor may find it empty, or with more room. */
	onChange(listener) {
		this.#listeners.add(listener);
		return () => this.#listeners.delete(listener);
	}
	get empty() {
		return this.#count === 0;
	}
	/** Whether others may enter now. */
	get open() {
		return this.#closed === void 0 && !this.#alone;
	}
	/**
	* Somebody wants to run alone: nobody enters until that has happened. Not too soon after the last time, and not for longer
	* than `patienceMs`. Answers whether it is closed for them.
	*/
	clear(by, everyMs, patienceMs) {
		const now = this.#clock.monotonic();
		if (this.#closed === void 0 && now - this.#openedAt >= everyMs) this.#closed = {
			by,
			since: now
		};
		if (this.#closed?.by !== by) return false;
		if (this.#count === 0 || now - this.#closed.since <= patienceMs) return true;
		this.reopen(by);
		return false;
	}
	/** Lets others in again, if it was closed for this one. */
	reopen(by) {
		if (this.#closed?.by !== by) return;
		this.#closed = void 0;
		this.#openedAt = this.#clock.monotonic();
		this.#admit();
	}
	/** Whether this many bytes more may be on the floor; one message always may. */
	hasRoomFor(bytes) {
		const room = this.#count === 0 || this.#bytes + bytes <= MAX_BYTES;
		if (!room) this.#tight = true;
		return room;
	}
	/** Enters as soon as others may. */
	async enterWhenOpen(bytes) {
		while (!this.open) await new Promise((resolve) => this.#waiting.push(resolve));
		this.enter(bytes);
	}
	enter(bytes, alone = false) {
		this.#count += 1;
		this.#bytes += bytes;
		this.#alone = alone;
	}
	leave(bytes) {
		this.#count -= 1;
		this.#bytes -= bytes;
		this.#alone = false;
		this.#admit();
		if (!this.#tight && !(this.#closed && this.empty)) return;
		this.#tight = false;
		for (const listener of this.#listeners) listener();
	}
	#admit() {
		if (this.open) for (const enter of this.#waiting.splice(0)) enter();
	}
};
/** How much of messages may run at once in one process. */
const MAX_BYTES = 67108864;
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
// src/core/operations.ts
/** Keys that wait behind a message that failed for good. */
var Keys = class {
	#options;
	/** Made by `createHapax`. */
	constructor(options) {
		this.#options = options;
	}
	/** The keys that wait, longest first. */
	async list(query = {}) {
		noOthers("query", query, ["limit"]);
		return this.#options.store.heldKeys(pageSize(query.limit));
	}
	/** Lets a key go on without its held message, which stays in the failed store. Rejects with `not-found`. */
	async release(held, by) {
		const origin = oneOf("origin", ["inbox", "outbox"], held.origin, "inbox");
		const [scope, key] = [text$1("scope", held.scope), text$1("key", held.key, MAX_TEXT_BYTES)];
		if (!await this.#options.store.releaseKey(origin, scope, key, auditOf("release", by))) throw notFound(`the key ${key} of ${scope} is not held`, {
			origin,
			scope,
			key
		});
		this.#options.wake();
	}
};
/** Messages that were published and kept (`keepSentMs` of the worker). */
var Sent = class {
	#options;
	/** Made by `createHapax`. */
	constructor(options) {
		this.#options = options;
	}
	/** A page of published messages, newest first; `before` takes the `seq` of the last one of the page before. */
	async list(query = {}) {
		const { before, limit, ...where } = query;
		const filter = {
			...checkedWhere(where),
			limit: pageSize(limit)
		};
		return this.#options.store.sentList(before === void 0 ? filter : {
			...filter,
			before: checkedSeq(before)
		});
	}
	/** Publishes a message again, under its own id: whoever had it takes it for a duplicate. Rejects with `not-found`. */
	async republish(seq, by) {
		if (!await this.#republish(checkedSeq(seq), auditOf("republish", by))) throw notFound(`there is no published message ${seq}`, { seq });
	}
	/** Publishes all of these again, oldest first. */
	async republishAll(where, options = {}) {
		const { store, clock } = this.#options;
		const which = checkedWhere(where);
		const audit = auditOf("republish", options.by);
		return bulk(clock, {
			newest: async () => (await store.sentList({
				...which,
				limit: 1
			})).at(0)?.seq,
			page: (after, limit) => store.sentSeqs(which, after, limit),
			change: (seq) => this.#republish(seq, audit)
		}, options);
	}
	async #republish(seq, audit) {
		const there = await this.#options.store.sentRepublish(seq, audit);
		if (there) this.#options.wake();
		return there;
	}
};
function checkedWhere(where) {
	noOthers("query", where, [
		"relay",
		"type",
		"olderThanMs",
		"newerThanMs"
	]);
	age("olderThanMs", where.olderThanMs);
	age("newerThanMs", where.newerThanMs);
	return where;
}
/** The consumers that the store knows, whichever process they belong to. */
var Consumers = class {
	#options;
	/** Made by `createHapax`. */
	constructor(options) {
		this.#options = options;
	}
	/** All that have subscriptions, by name. */
	async list() {
		const known = /* @__PURE__ */ new Map();
		for (const { consumer, type, ordered } of await this.#options.store.subscriptions()) {
			const each = known.get(consumer) ?? {
				types: [],
				ordered: false
			};
			each.types.push(type);
			each.ordered ||= ordered;
			known.set(consumer, each);
		}
		return [...known].map(([name, { types, ordered }]) => ({
			name,
			types: types.sort(),
			ordered
		})).sort((a, b) => a.name < b.name ? -1 : 1);
	}
	/**
	* Forgets the subscriptions of a consumer that is not deployed any more: nothing is delivered to it locally from now on.
	* Its receipts, inbox and failed messages stay. A worker that starts with it subscribes it again. Rejects with `not-found`.
	*/
	async remove(name, by) {
		if (!await this.#options.store.unsubscribe(text$1("name", name), auditOf("remove", by))) throw notFound(`there is no consumer ${name}`, { consumer: name });
	}
};
/** The relays that the store knows. */
var Relays = class {
	#options;
	/** Made by `createHapax`. */
	constructor(options) {
		this.#options = options;
	}
	/** Every relay with where it goes and what waits. */
	async list() {
		return (await this.#options.store.status()).relays;
	}
	/** Says that a relay goes to another destination from now on; workers with the old one refuse to start. */
	async move(name, destination, by) {
		const where = text$1("destination", destination, MAX_TEXT_BYTES);
		await this.#options.store.moveRelay(text$1("name", name), where, auditOf("move", by));
	}
};
function notFound(message, fields) {
	return new HapaxError("not-found", message, { fields });
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
		const { events, wake } = this.#options;
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
		wake();
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
		const size = bytes.byteLength + Buffer.byteLength(attributes);
		if (size > maxBytes) throw new HapaxError("too-large", `expected a message of at most ${maxBytes} bytes, got ${size}`, { fields: {
			type: type.type,
			bytes: size
		} });
		const message = {
			messageKey: messageKey(source, id),
			source,
			id,
			type: type.type,
			key: keyOf(type, data, options),
			attributes,
			data: bytes,
			fingerprint: fingerprint(bytes)
		};
		if (message.key !== null && options.delayMs) expected("delayMs", "absent on a message with a key, because it would hold up what comes after it", options.delayMs);
		return {
			message,
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
// src/core/cleaner.ts
/**
* Deletes what is old and finished, in small steps with rests in between. One worker at a time does a thing; if two of them
* do for a moment, they delete the same rows.
*/
var Cleaner = class {
	#options;
	#signal = new Signal();
	#stopping = false;
	#loop = Promise.resolve();
	constructor(options) {
		this.#options = options;
	}
	start() {
		this.#loop = this.#work();
	}
	async stop() {
		this.#stopping = true;
		this.#signal.notify();
		await this.#loop;
	}
	async #work() {
		const { clock, random } = this.#options.engine;
		await this.#rest(FIRST_MS * (.5 + random.number()));
		while (!this.#stopping) {
			const began = clock.monotonic();
			for (const task of this.#tasks()) await this.#clean(task);
			await this.#rest(Math.max(EVERY_MS, 20 * (clock.monotonic() - began)) * (.9 + random.number() / 5));
		}
	}
	#tasks() {
		const { consumers, relays, keepSentMs, membership } = this.#options;
		const tasks = [];
		for (const { name, settings } of consumers) {
			const { retentionMs } = settings;
			if (retentionMs === "forever") continue;
			tasks.push({
				what: "receipts",
				of: name,
				olderThanMs: retentionMs,
				step: (after) => ({
					kind: "receipts",
					consumer: name,
					after
				}),
				mine: () => membership.owns(`clean ${name}`, ({ consumers: others }) => name in others)
			});
		}
		for (const relay of keepSentMs === void 0 ? [] : relays) tasks.push({
			what: "sent",
			of: relay,
			olderThanMs: keepSentMs,
			step: () => ({
				kind: "sent",
				relay
			}),
			mine: () => membership.owns(`clean sent ${relay}`, ({ relays: others }) => others.includes(relay))
		});
		const mine = () => membership.owns("clean audit", () => true);
		tasks.push({
			what: "audit",
			of: "",
			olderThanMs: AUDIT_MS,
			step: () => ({ kind: "audit" }),
			mine
		});
		return tasks;
	}
	async #clean({ what, of, olderThanMs, step, mine }) {
		const { engine, membership, report } = this.#options;
		const { clock, store, events } = engine;
		let deleted = 0;
		let after;
		try {
			do {
				if (this.#stopping || !membership.alive || !mine()) break;
				const began = clock.monotonic();
				const done = await persist(engine, () => store.cleanup(step(after), olderThanMs, STEP));
				deleted += done.deleted;
				after = done.after;
				await this.#rest(Math.min(MAX_REST_MS, Math.max(MIN_REST_MS, REST * (clock.monotonic() - began))));
			} while (after !== void 0);
		} catch (error) {
			report(asError$1(error));
		}
		if (deleted > 0) events.emit("cleaned", () => ({
			what,
			of,
			deleted
		}));
	}
	async #rest(ms) {
		if (!this.#stopping) await this.#signal.wait(this.#options.engine.clock, ms);
	}
};
const FIRST_MS = 6e4;
const EVERY_MS = 36e5;
const AUDIT_MS = 31536e6;
/** How many rows one step looks at. */
const STEP = 1e3;
/** A rest is so many times as long as the step before it. */
const REST = 8;
const MIN_REST_MS = 20;
const MAX_REST_MS = 2e3;
// src/core/grouping.ts
/** Puts what a look found into groups. A key's messages follow one another without a gap, from its first one on. */
function grouping(entries, options) {
	const loose = entries.filter((entry) => entry.key === null && options.ready(entry));
	const heads = [];
	const runs = loose.filter((entry) => !entry.suspect).map((entry) => [entry]);
	for (const rows of byKey(entries).values()) {
		const run = rows.slice(0, untilNot(rows, (row) => options.ready(row) && !row.suspect));
		const [head] = rows;
		if (run.length > 0) runs.push(run.slice(0, Math.max(options.size, CHAIN)));
		else if (head !== void 0 && options.ready(head)) heads.push(head);
	}
	const suspects = [...loose.filter((entry) => entry.suspect), ...heads];
	return {
		turns: packed(runs, options),
		suspects
	};
}
/** How many messages of one key are taken into hand where they do not fit into one group. */
const CHAIN = 10;
function byKey(entries) {
	const keys = /* @__PURE__ */ new Map();
	for (const entry of entries) {
		if (entry.key === null) continue;
		const rows = keys.get(entry.key);
		if (rows === void 0) keys.set(entry.key, [entry]);
		else rows.push(entry);
	}
	return keys;
}
function untilNot(rows, holds) {
	const end = rows.findIndex((row) => !holds(row));
	return end === -1 ? rows.length : end;
}
/** Fills groups with whole runs; a run that is larger than a group becomes a turn of its own. */
function packed(runs, { room, roomBytes, size, bytes }) {
	const turns = [];
	let group = [];
	let filled = 0;
	let taken = 0;
	let takenBytes = 0;
	const close = () => {
		if (group.length > 0) turns.push([group]);
		group = [];
		filled = 0;
	};
	for (const whole of runs) {
		const run = fitting(whole, taken === 0 ? 1 : 0, roomBytes - takenBytes);
		if (taken >= room || run.length === 0) break;
		const weight = run.reduce((sum, entry) => sum + entry.bytes, 0);
		taken += run.length;
		takenBytes += weight;
		if (run.length > size || weight > bytes) {
			turns.push(chunks(run, size, bytes));
			continue;
		}
		if (group.length + run.length > size || filled + weight > bytes) close();
		group.push(...run);
		filled += weight;
	}
	close();
	return turns;
}
/** The beginning of a run that fits, at least `least` of it. */
function fitting(run, least, bytes) {
	let left = bytes;
	const end = run.findIndex((entry, index) => {
		left -= entry.bytes;
		return left < 0 && index >= least;
	});
	return end === -1 ? run : run.slice(0, end);
}
function chunks(run, size, bytes) {
	const groups = [];
	let filled = 0;
	for (const entry of run) {
		const last = groups.at(-1);
		if (last !== void 0 && last.length < size && filled + entry.bytes <= bytes) {
			last.push(entry);
			filled += entry.bytes;
		} else {
			groups.push([entry]);
			filled = entry.bytes;
		}
	}
	return groups;
}
/** When the first of what waits for its time is due, with or without a key. */
function soonest(looks, entries) {
	let next;
	const waits = (ms) => {
		if (ms !== void 0 && ms > 0) next = Math.min(next ?? ms, ms);
	};
	for (const look of looks) waits(look.nextMs);
	for (const entry of entries) if (!entry.held) waits(entry.dueMs);
	return next;
}
// src/core/hand.ts
/** What a line has in hand: rows that wait for a place, or are under way. */
var Hand = class {
	#seqs = /* @__PURE__ */ new Map();
	#lately = /* @__PURE__ */ new Set();
	#bytes = 0;
	get size() {
		return this.#seqs.size;
	}
	/** The memory that it takes. */
	get bytes() {
		return this.#bytes;
	}
	take(seq, bytes) {
		this.#seqs.set(seq, bytes);
		this.#bytes += bytes;
	}
	letGo(seq) {
		const bytes = this.#seqs.get(seq);
		if (bytes === void 0) return;
		this.#seqs.delete(seq);
		this.#bytes -= bytes;
		this.#lately.add(seq);
	}
	/** A look begins: from now on, what is let go may be shown by it as it was before. */
	looking() {
		this.#lately.clear();
	}
	/** Whether a row that the last look shows may be taken. */
	isFree(seq) {
		return !this.#seqs.has(seq) && !this.#lately.has(seq);
	}
};
// src/core/line.ts
/** How much one look lists of everybody's rows. */
const DRAIN_LIMIT = 1e3;
// src/core/rotation.ts
/**
* Keys are looked at page by page, lane by lane, and a lane that has come to its end begins again. One turn is over when
* every lane that had more keys when it began has come to its end.
*/
var Rotation = class {
	#after = /* @__PURE__ */ new Map();
	#left = /* @__PURE__ */ new Set();
	/** Where the next look goes on. */
	get after() {
		return this.#after;
	}
	/** Whether there are keys that this turn has not come to. */
	get unfinished() {
		return this.#left.size > 0;
	}
	/** Learns which lanes have more keys. */
	seen(after) {
		this.#after = after;
		if (this.#left.size === 0) for (const lane of after.keys()) this.#left.add(lane);
		else for (const lane of this.#left) if (!after.has(lane)) this.#left.delete(lane);
	}
};
// src/core/inbox-line.ts
/** The inbox of one consumer, as one worker works it. */
var InboxLine = class {
	#options;
	#hand = new Hand();
	/** Rows that were not ours lately, until when to leave them alone, and how often that happened. */
	#avoided = /* @__PURE__ */ new Map();
	#running = /* @__PURE__ */ new Map();
	/** What was looked at, what is about to be noted, and what may begin because it is. */
	#queue = [];
	#noting = [];
	#noted = [];
	#suspects = [];
	#rotation = new Rotation();
	#nextMs;
	constructor(options) {
		this.#options = options;
		options.places.onFree(() => {
			if (this.#noted.length + this.#noting.length + this.#queue.length > 0) options.changed();
		});
	}
	get consumer() {
		return this.#options.consumer.name;
	}
	/** What runs or is about to: what would have ended the process, if it ended now. */
	get about() {
		return [
			...this.#running.values(),
			...this.#noted,
			...this.#noting
		].flatMap(seqsOf);
	}
	get idle() {
		return this.#hand.size === 0;
	}
	get running() {
		return [...this.#running.keys()];
	}
	/** Looks ahead by about twice what runs at once, and again when half of that is used up. */
	shares() {
		const ahead = this.#ahead();
		if (this.#hand.size > ahead / 2) return [];
		const limit = this.#rotation.unfinished && this.idle ? MAX_AHEAD : ahead - this.#hand.size;
		this.#hand.looking();
		return this.#byLanes().map(({ lanes, types }) => this.#share(types, lanes, limit, this.#rotation.after));
	}
	allShares(after) {
		return [this.#share(this.#options.consumer.types, after.size === 0 ? ALL_LANES : [...after.keys()], DRAIN_LIMIT, after)];
	}
	isDue({ type, dueMs, held }) {
		return dueMs <= 0 && !held && this.#options.consumer.types.includes(type);
	}
	offer(looks) {
		const entries = distinct(looks.flatMap((look) => look.entries));
		this.#rotation.seen(new Map(looks.flatMap((look) => [...look.after])));
		this.#nextMs = soonest(looks, entries);
		const { turns, suspects } = grouping(entries, {
			room: this.#ahead() - this.#hand.size,
			size: this.#options.consumer.groupSize,
			roomBytes: Number.POSITIVE_INFINITY,
			bytes: GROUP_BYTES,
			ready: (entry) => this.#isReady(entry)
		});
		this.#suspects = suspects;
		for (const turn of turns) this.#take(turn);
		this.#queue.push(...turns);
		return turns.length > 0;
	}
	get unfinished() {
		return this.#rotation.unfinished;
	}
	get nextMs() {
		return this.#nextMs;
	}
	/**
	* Puts up what is to be noted next, if what is noted runs low: enough for every free place and one more. Not much more,
	* because after a crash they run alone.
	*/
	putUp() {
		const up = [...this.#noted, ...this.#noting];
		const turns = this.#options.concurrency - this.#running.size + 1;
		let rows = up.reduce((sum, turn) => sum + seqsOf(turn).length, 0);
		const low = rows <= NOTED / 2 || up.length < turns;
		while (low && this.#queue.length > 0 && (rows < NOTED || this.#noted.length + this.#noting.length < turns)) {
			const turn = this.#queue.shift();
			rows += seqsOf(turn).length;
			this.#noting.push(turn);
		}
		return this.#noting.length > 0;
	}
	/** What was put up has been noted, and may begin. */
	noted() {
		this.#noted.push(...this.#noting.splice(0));
	}
	/** The note is another one now. */
	unnoted() {
		this.#noting.unshift(...this.#noted.splice(0));
	}
	begin() {
		const { floor, places, signal } = this.#options;
		while (this.#noted.length > 0 && floor.open && !signal.aborted && places.free) {
			const bytes = sum(this.#noted[0]);
			if (!floor.hasRoomFor(bytes)) return;
			this.#start(this.#noted.shift(), bytes, false);
		}
	}
	/** Rows that have to run alone. */
	get suspects() {
		return this.#suspects;
	}
	/** Takes a suspect into hand. */
	takeSuspect() {
		const [suspect, ...others] = this.#suspects;
		this.#suspects = others;
		if (suspect !== void 0) this.#take([[suspect]]);
		return suspect;
	}
	giveBack(suspect) {
		this.#letGo([[suspect]]);
	}
	beginAlone(suspect) {
		this.#start([[suspect]], suspect.bytes, true);
	}
	/** Gives back what has not begun; it was only looked at. */
	drop() {
		this.#suspects = [];
		for (const turns of [
			this.#queue,
			this.#noting,
			this.#noted
		]) for (const turn of turns.splice(0)) this.#letGo(turn);
	}
	#ahead() {
		const places = this.#options.concurrency * this.#options.consumer.groupSize;
		return Math.min(MAX_AHEAD, Math.max(MIN_AHEAD, 2 * places));
	}
	#share(types, lanes, limit, after) {
		return {
			table: "inbox",
			scope: this.consumer,
			types,
			lanes,
			limit,
			after
		};
	}
	/** While an old version of a process does not know a type, others have its lanes for this type. */
	#byLanes() {
		const { consumer, membership } = this.#options;
		const found = /* @__PURE__ */ new Map();
		for (const type of consumer.types) {
			const lanes = membership.lanesOfType(consumer.name, type);
			const name = lanes.join();
			const same = found.get(name);
			if (same === void 0) found.set(name, {
				lanes,
				types: [type]
			});
			else same.types.push(type);
		}
		return [...found.values()].filter(({ lanes }) => lanes.length > 0);
	}
	/** Due, not in hand, mine, and not somebody else's lately. */
	#isReady({ seq, type, lane, held, dueMs }) {
		if (held || dueMs > 0 || !this.#hand.isFree(seq)) return false;
		const { consumer, membership, engine } = this.#options;
		if (!consumer.types.includes(type) || !membership.lanesOfType(consumer.name, type).includes(lane)) return false;
		const avoided = this.#avoided.get(seq);
		return avoided === void 0 || avoided.until <= engine.clock.monotonic();
	}
	#start(turn, bytes, alone) {
		const { floor, places, changed } = this.#options;
		floor.enter(bytes, alone);
		places.take();
		const run = this.#run(turn).finally(() => {
			this.#running.delete(run);
			this.#letGo(turn);
			floor.leave(bytes);
			places.give();
			changed();
		});
		this.#running.set(run, turn);
	}
	/** One group after the other; what stands behind a row that is not done would not be given to us anyway. */
	async #run(turn) {
		const { consumer, signal, report } = this.#options;
		for (const group of turn) {
			if (signal.aborted) return;
			const seqs = group.map((entry) => entry.seq);
			try {
				const outcomes = await consumer.work(seqs, signal);
				if (!this.#learn(seqs, outcomes)) return;
			} catch (error) {
				this.#learn(seqs, /* @__PURE__ */ new Map());
				report(asError$1(error));
				return;
			}
		}
	}
	/** Whether all of them are done. Those that were not ours are left alone for a while. */
	#learn(seqs, outcomes) {
		let done = true;
		for (const seq of seqs) {
			const outcome = outcomes.get(seq);
			if (outcome?.status !== "processed") done = false;
			if (outcome?.ack) this.#avoided.delete(seq);
			else this.#avoid(seq);
		}
		return done;
	}
	#avoid(seq) {
		const { clock, random } = this.#options.engine;
		if (this.#avoided.size >= MAX_AVOIDED) this.#avoided.clear();
		const times = (this.#avoided.get(seq)?.times ?? 0) + 1;
		const ms = Math.min(MAX_AVOID_MS, AVOID_MS * 2 ** times) * (.5 + random.number() / 2);
		this.#avoided.set(seq, {
			until: clock.monotonic() + ms,
			times
		});
	}
	#take(turn) {
		for (const { seq } of turn.flat()) this.#hand.take(seq, 0);
	}
	#letGo(turn) {
		for (const { seq } of turn.flat()) this.#hand.letGo(seq);
	}
};
const MIN_AHEAD = 200;
const MAX_AHEAD = 2e3;
/** How large a group may be, apart from its first message. */
const GROUP_BYTES = 4194304;
const AVOID_MS = 50;
const MAX_AVOID_MS = 5e3;
const MAX_AVOIDED = 1e4;
/** How many messages that have not begun are noted at once, about. */
const NOTED = 40;
function seqsOf(turn) {
	return turn.flatMap((group) => group.map((entry) => entry.seq));
}
function sum(turn) {
	let bytes = 0;
	for (const group of turn) for (const entry of group) bytes += entry.bytes;
	return bytes;
}
function distinct(entries) {
	const seen = /* @__PURE__ */ new Set();
	return entries.filter(({ seq }) => !seen.has(seq) && seen.add(seq));
}
// src/core/places.ts
/** How many transactions of a consumer may run at once: its inbox and its subscriptions share them. */
var Places = class {
	#users = [];
	#free;
	constructor(count) {
		this.#free = count;
	}
	/** Called when a place is free again; users take turns in being asked first. */
	onFree(user) {
		this.#users.push(user);
	}
	get free() {
		return this.#free > 0;
	}
	take() {
		this.#free -= 1;
	}
	give() {
		this.#free += 1;
		const first = this.#users.shift();
		if (first !== void 0) this.#users.push(first);
		for (const user of this.#users) if (this.#free > 0) user();
	}
};
// src/core/reader.ts
/** Takes what a subscription delivers and hands it to its consumer, in groups of what has arrived. */
var Reader = class {
	#options;
	#arrived = [];
	#running = /* @__PURE__ */ new Set();
	#signal = new Signal();
	#open;
	#stopping = false;
	#errors = 0;
	/** Deliveries that wait here for what is under way elsewhere. */
	#patient = /* @__PURE__ */ new Set();
	constructor(options) {
		this.#options = options;
		options.places.onFree(() => this.#dispatch());
	}
	/** Begins to read. Rejects when the broker refuses, or is not there. */
	async start() {
		const { source, report } = this.#options;
		const opening = source.subscription.open({
			prefetch: this.#prefetch(),
			receive: (deliveries) => {
				this.#arrived.push(...deliveries);
				this.#dispatch();
			},
			report
		});
		this.#open = await within(this.#options.engine.clock, OPEN_MS, opening, () => {
			opening.then((reader) => reader.close()).catch(() => {});
			throw new HapaxError("broker-timeout", `${source.subscription.name} did not open within ${OPEN_MS} ms`);
		});
	}
	get running() {
		return [...this.#running, ...this.#patient];
	}
	get idle() {
		return this.#running.size === 0 && this.#patient.size === 0 && this.#arrived.length === 0;
	}
	/** No new deliveries; what has not begun is given back. */
	async pause() {
		this.#stopping = true;
		this.#signal.notify();
		await this.#open?.pause();
		for (const delivery of this.#arrived.splice(0)) this.#tell(() => delivery.retry(0));
	}
	async close() {
		await this.#open?.close();
	}
	#prefetch() {
		const { source, concurrency } = this.#options;
		const { prefetch, prefetchBytes } = source.prefetch;
		const runs = concurrency * source.consumer.groupSize;
		return {
			messages: prefetch ?? Math.min(2e3, 4 * runs),
			bytes: prefetchBytes ?? 33554432
		};
	}
	/** As many groups as may run at once; with order, one batch at a time, so that it is stored in the order of arrival. */
	#dispatch() {
		const { source, places } = this.#options;
		const most = source.consumer.ordered ? 1 : Number.POSITIVE_INFINITY;
		const size = source.consumer.settings.receive === "store" ? STORE_SIZE : source.consumer.groupSize;
		while (this.#arrived.length > 0 && places.free && this.#running.size < most && !this.#stopping) this.#track(this.#run(this.#arrived.splice(0, size)));
	}
	#track(work) {
		const { places, report } = this.#options;
		places.take();
		const run = work.catch((error) => report(asError$1(error))).finally(() => {
			this.#running.delete(run);
			places.give();
		});
		this.#running.add(run);
	}
	async #run(deliveries) {
		let left = deliveries;
		for (;;) {
			const undone = await this.#handle(left);
			if (undone.length === 0) return;
			if (!this.#options.source.consumer.ordered || this.#stopping) return this.#putBack(undone);
			left = undone;
			await this.#signal.wait(this.#options.engine.clock, this.#backOffMs());
		}
	}
	/** Acknowledges what is done; answers what is not. */
	async #handle(deliveries) {
		const { source, floor, report } = this.#options;
		const bytes = deliveries.reduce((sum, delivery) => sum + delivery.bytes, 0);
		await floor.enterWhenOpen(bytes);
		if (this.#stopping) {
			floor.leave(bytes);
			return deliveries;
		}
		let outcomes;
		try {
			outcomes = await source.consumer.handleMany(deliveries.map((delivery) => delivery.message));
			this.#errors = 0;
		} catch (error) {
			this.#errors = Math.min(this.#errors + 1, 10);
			report(asError$1(error));
			return deliveries;
		} finally {
			floor.leave(bytes);
		}
		return deliveries.filter((delivery, index) => {
			const done = outcomes[index]?.ack === true;
			if (done) this.#tell(() => delivery.ack());
			return !done;
		});
	}
	/**
	* Somebody else may be at it, or the database was away: they come again. A few wait here, without a place, so that a
	* message that is settled elsewhere in a moment does not make the round through the broker.
	*/
	#putBack(deliveries) {
		const delayMs = this.#backOffMs();
		for (const delivery of deliveries) {
			const full = this.#patient.size >= this.#prefetch().messages / 4;
			if (this.#stopping || this.#errors > 0 || full) this.#tell(() => delivery.retry(delayMs));
			else this.#wait(delivery);
		}
		if (this.#errors > 0) this.#track(pause(this.#options.engine.clock, delayMs, this.#options.signal));
	}
	/** What a driver throws about one delivery does not concern the others. */
	#tell(say) {
		try {
			say();
		} catch (error) {
			this.#options.report(asError$1(error));
		}
	}
	#wait(delivery) {
		const waiting = this.#waitAndRetry(delivery).catch((error) => this.#options.report(asError$1(error))).finally(() => this.#patient.delete(waiting));
		this.#patient.add(waiting);
	}
	async #waitAndRetry(delivery) {
		const { clock } = this.#options.engine;
		const until = clock.monotonic() + this.#options.source.consumer.settings.timeoutMs;
		let left = [delivery];
		while (left.length > 0 && clock.monotonic() < until && !this.#stopping && this.#errors === 0) {
			await this.#signal.wait(clock, this.#backOffMs());
			if (!this.#stopping) left = await this.#handle(left);
		}
		for (const each of left) this.#tell(() => each.retry(this.#backOffMs()));
	}
	#backOffMs() {
		const { random } = this.#options.engine;
		return Math.min(3e4, 200 * 2 ** this.#errors) * (.5 + random.number());
	}
};
const STORE_SIZE = 500;
const OPEN_MS = 3e4;
// src/core/relay.ts
/**
* Moves the outbox to a destination: reads what is there, sends it, and deletes exactly what the broker has confirmed. No
* transaction is open meanwhile. Two relays that send the same rows in order only make duplicates under the same id.
*/
var Relay = class {
	#options;
	#hand = new Hand();
	#running = /* @__PURE__ */ new Set();
	#queue = [];
	#confirmed = [];
	#deleting = false;
	#rotation = new Rotation();
	#nextMs;
	/** What the next call of the destination takes along. */
	#leaving = [];
	/** Rows that did not come through while others did, and until when to leave them alone. */
	#avoided = /* @__PURE__ */ new Map();
	#confirmedAt = Number.NEGATIVE_INFINITY;
	/** Times in a row that the destination was not there, and until when to leave it alone. */
	#down = {
		times: 0,
		until: 0
	};
	constructor(options) {
		this.#options = options;
	}
	get idle() {
		return this.#hand.size === 0;
	}
	get unfinished() {
		return this.#rotation.unfinished;
	}
	get nextMs() {
		const pauseMs = this.#down.until - this.#options.engine.clock.monotonic();
		return pauseMs > 0 ? pauseMs : this.#nextMs;
	}
	get running() {
		return [...this.#running];
	}
	/** The next batch is read while confirms of the last one are outstanding. */
	shares() {
		if (this.#hand.size > WINDOW / 2 || this.#hand.bytes > WINDOW_BYTES / 2 || this.#isDown()) return [];
		this.#hand.looking();
		const lanes = this.#options.membership.lanesOfRelay(this.#options.name);
		return lanes.length === 0 ? [] : [this.#share(lanes, WINDOW - this.#hand.size, this.#rotation.after)];
	}
	allShares(after) {
		return [this.#share(after.size === 0 ? ALL_LANES : [...after.keys()], DRAIN_LIMIT, after)];
	}
	isDue({ dueMs, held }) {
		return dueMs <= 0 && !held;
	}
	offer(looks) {
		const entries = looks.flatMap((look) => look.entries);
		this.#rotation.seen(new Map(looks.flatMap((look) => [...look.after])));
		this.#nextMs = soonest(looks, entries);
		const { turns } = grouping(entries, {
			room: WINDOW - this.#hand.size,
			size: WINDOW,
			roomBytes: WINDOW_BYTES - this.#hand.bytes,
			bytes: BATCH_BYTES,
			ready: (entry) => this.#isReady(entry)
		});
		const taken = turns.map(([first = []]) => [...first]);
		for (const { seq, bytes } of taken.flat()) this.#hand.take(seq, bytes);
		this.#queue.push(...taken);
		return taken.length > 0;
	}
	begin() {
		if (this.#options.signal.aborted) return;
		for (const batch of this.#queue.splice(0)) this.#track(this.#send(batch));
	}
	drop() {
		for (const batch of this.#queue.splice(0)) this.#letGo(batch);
	}
	#share(lanes, limit, after) {
		return {
			table: "outbox",
			scope: this.#options.name,
			types: [],
			lanes,
			limit,
			after
		};
	}
	#isDown() {
		return this.#down.until > this.#options.engine.clock.monotonic();
	}
	#track(work) {
		const run = work.catch((error) => this.#options.report(asError$1(error))).finally(() => {
			this.#running.delete(run);
			this.#options.changed();
		});
		this.#running.add(run);
	}
	/** Reads a batch and sends it, key by key: the next message of a key goes when the one before it is confirmed. */
	async #send(batch) {
		let rows;
		try {
			rows = await this.#options.engine.store.outboxRows(batch.map((entry) => entry.seq));
		} catch (error) {
			this.#letGo(batch);
			throw error;
		}
		const there = new Map(rows.map((row) => [row.seq, row]));
		const chains = /* @__PURE__ */ new Map();
		for (const entry of batch) {
			const row = there.get(entry.seq);
			if (row === void 0) this.#letGo([entry]);
			else chain(chains, entry.key ?? `\0${entry.seq}`, row);
		}
		const sending = [...chains.values()].map((rows) => this.#sendChain(rows));
		const failed = (await Promise.allSettled(sending)).find((each) => each.status === "rejected");
		if (failed !== void 0) throw failed.reason;
	}
	/** The messages of one key, or one without. What is not confirmed in the end is let go. */
	async #sendChain(rows) {
		const left = new Set(rows);
		const send = async (row) => {
			const confirmed = await this.#settle(row, this.#options.engine.clock.monotonic(), await this.#enqueue(row));
			if (confirmed) left.delete(row);
			return confirmed;
		};
		try {
			if (this.#options.destination.features.keepsOrder) await Promise.all(rows.map(send));
			else for (const row of rows) if (!await send(row)) return;
		} finally {
			this.#letGo([...left]);
		}
	}
	/** What is to be sent in the same moment goes to the destination in one call. */
	#enqueue(row) {
		return new Promise((resolve) => {
			this.#leaving.push({
				row,
				resolve
			});
			if (this.#leaving.length === 1) queueMicrotask(() => this.#flush());
		});
	}
	#flush() {
		const leaving = this.#leaving.splice(0);
		const answers = this.#publish(leaving.map(({ row }) => row));
		for (const [index, { resolve }] of leaving.entries()) answers[index]?.then(resolve);
	}
	/** One answer each, in time, whatever the destination does. */
	#publish(rows) {
		const { destination, signal, engine } = this.#options;
		const limit = new AbortController();
		const late = new Promise((resolve) => {
			const end = () => {
				limit.abort();
				resolve(unavailable(new HapaxError("broker-timeout", `the broker did not answer within ${CONFIRM_MS} ms`)));
			};
			const cancel = engine.clock.after(CONFIRM_MS, end);
			signal.addEventListener("abort", end, { once: true });
			limit.signal.addEventListener("abort", () => {
				cancel();
				signal.removeEventListener("abort", end);
			});
		});
		let sent;
		try {
			sent = destination.publish(rows.map(outgoing), limit.signal);
		} catch (error) {
			sent = rows.map(() => Promise.resolve(unavailable(error)));
		}
		const answers = rows.map((_, index) => Promise.race([answerOf(sent[index]), late]));
		Promise.all(answers).then(() => limit.abort());
		return answers;
	}
	/** Whether the next message of its key may go. */
	async #settle(row, sentAt, sent) {
		if (sent.status === "confirmed") this.#confirm(row);
		else if (sent.status === "unavailable") this.#isUnavailable(row, sentAt, sent.error);
		else if (sent.status === "refused") await this.#refused(row, sent.error);
		else await this.#postpone(row, sent.error);
		return sent.status === "confirmed";
	}
	#confirm(row) {
		const { events } = this.#options.engine;
		this.#down = {
			times: 0,
			until: 0
		};
		this.#confirmedAt = this.#options.engine.clock.monotonic();
		this.#avoided.delete(row.seq);
		this.#confirmed.push(row.seq);
		events.emit("relayed", () => ({
			relay: row.relay,
			message: ref(row.message)
		}));
		if (this.#deleting) return;
		this.#deleting = true;
		this.#track(this.#deleteConfirmed());
	}
	/** Deletes what has been confirmed until now, and again what was meanwhile. */
	async #deleteConfirmed() {
		const { engine, keep } = this.#options;
		await null;
		try {
			while (this.#confirmed.length > 0) {
				const seqs = this.#confirmed.splice(0, WINDOW);
				try {
					await persist(engine, () => engine.store.confirm(seqs, keep));
				} finally {
					for (const seq of seqs) this.#hand.letGo(seq);
				}
				this.#options.changed();
			}
		} finally {
			this.#deleting = false;
			for (const seq of this.#confirmed.splice(0)) this.#hand.letGo(seq);
		}
	}
	async #postpone(row, error) {
		const { engine } = this.#options;
		const delayMs = retryDelay(POLICY, row.attempts + 1, engine.random);
		const event = {
			relay: row.relay,
			message: ref(row.message),
			attempt: row.attempts + 1,
			delayMs,
			error
		};
		engine.logger.warn({
			...event,
			error: messageOf(error)
		}, "the broker did not take a message; trying again later");
		engine.events.emit("relay-retrying", () => event);
		await persist(engine, () => engine.store.postpone([{
			seq: row.seq,
			delayMs,
			error: recordError(error)
		}]));
	}
	async #refused(row, error) {
		const { engine } = this.#options;
		const held = row.message.key !== null;
		const event = {
			relay: row.relay,
			message: ref(row.message),
			held,
			error
		};
		engine.logger.error({
			...event,
			error: messageOf(error)
		}, "the broker refused a message for good");
		const record = {
			seq: row.seq,
			reason: "refused-by-broker",
			error: recordError(error),
			hold: held
		};
		if (await persist(engine, () => engine.store.refuse(record))) engine.events.emit("relay-failed", () => event);
	}
	/**
	* Nobody's fault: no attempt is used up, and nothing is sent for a while; only not this message, if others came through
	* meanwhile.
	*/
	#isUnavailable(row, sentAt, error) {
		const { engine, name, destination } = this.#options;
		const now = engine.clock.monotonic();
		if (this.#confirmedAt >= sentAt - ALIVE_MS) {
			const times = (this.#avoided.get(row.seq)?.times ?? 0) + 1;
			if (this.#avoided.size >= WINDOW) this.#avoided.clear();
			this.#avoided.set(row.seq, {
				times,
				until: now + retryDelay(DOWN, times, engine.random)
			});
			return;
		}
		if (this.#isDown()) return;
		const times = this.#down.times + 1;
		const pauseMs = retryDelay(DOWN, times, engine.random);
		this.#down = {
			times,
			until: now + pauseMs
		};
		const event = {
			relay: name,
			destination: destination.name,
			pauseMs,
			error
		};
		engine.logger.warn({
			...event,
			error: messageOf(error)
		}, "the broker is not available; trying again later");
		engine.events.emit("relay-down", () => event);
	}
	#isReady({ seq, dueMs, held }) {
		if (dueMs > 0 || held || !this.#hand.isFree(seq)) return false;
		return (this.#avoided.get(seq)?.until ?? 0) <= this.#options.engine.clock.monotonic();
	}
	#letGo(rows) {
		for (const { seq } of rows) this.#hand.letGo(seq);
	}
};
/** Messages that are read or under way at once. */
const WINDOW = 2e3;
/** How long to wait for the broker's answer; then the message is sent again, later. */
const CONFIRM_MS = 3e4;
/** A destination that has confirmed something so lately is there. */
const ALIVE_MS = 1e3;
const WINDOW_BYTES = 67108864;
const BATCH_BYTES = 16777216;
const POLICY = {
	attempts: Number.POSITIVE_INFINITY,
	minDelayMs: 500,
	maxDelayMs: 3e5,
	factor: 2
};
const DOWN = {
	attempts: Number.POSITIVE_INFINITY,
	minDelayMs: 100,
	maxDelayMs: 3e4,
	factor: 2
};
function chain(chains, key, row) {
	const rows = chains.get(key);
	if (rows === void 0) chains.set(key, [row]);
	else rows.push(row);
}
function outgoing({ message }) {
	return {
		...unpackAttributes(message),
		data: message.data
	};
}
function answerOf(sent) {
	return sent === void 0 ? Promise.resolve(unavailable(/* @__PURE__ */ new Error("the destination gave no answer for this message"))) : sent.catch(unavailable);
}
/** What a destination throws, against its contract, says nothing about the message. */
function unavailable(error) {
	return {
		status: "unavailable",
		error: asError$1(error)
	};
}
// src/core/worker-options.ts
const NAMES = [
	"consume",
	"relay",
	"relays",
	"keepSentMs",
	"pollMs",
	"takeoverMs",
	"cleanup"
];
/** Checks the options and fills in the defaults. */
function workerSettings(engine, options) {
	noOthers("options of worker", options, NAMES);
	const { consume = [], keepSentMs, cleanup = true } = options;
	if (!Array.isArray(consume)) expected("consume", "a list of consumers", consume);
	const relays = relaysOf(options);
	if (consume.length === 0 && relays.size === 0) expected("options of worker", "something to consume or a relay", "neither");
	if (typeof cleanup !== "boolean") expected("cleanup", "true or false", cleanup);
	const sources = consume.filter((each) => each instanceof Source);
	return {
		consumers: [...new Set(consume.map((each) => consumerOf(engine, each)))],
		sources,
		relays,
		keepSentMs: keepSentMs === void 0 ? void 0 : spanMs("keepSentMs", keepSentMs),
		pollMs: positiveInteger("pollMs", options.pollMs, 1e3),
		takeoverMs: positiveInteger("takeoverMs", options.takeoverMs, 15e3),
		cleanup
	};
}
function consumerOf(engine, given) {
	const consumer = given instanceof Source ? given.consumer : given;
	if (!(consumer instanceof Consumer) || !consumer.isOf(engine)) expected("consume", "a list of consumers of the same hapax", consumer);
	return consumer;
}
function relaysOf({ relay, relays = {} }) {
	const all = new Map(Object.entries(relays));
	if (relay !== void 0 && all.has("default")) expected("relay", `absent, because relays names 'default'`, relay);
	if (relay !== void 0) all.set("default", relay);
	for (const [name, destination] of all) {
		if (!isText(name, 255)) expected("relays", "names of relays", name);
		if (typeof destination?.publish !== "function") expected(`relay ${name}`, "a destination, for example an exchange of a broker", destination);
	}
	return all;
}
/** How many transactions each consumer may run at once, so that the pool is enough for all of them and for control work. */
function shareOut(consumers, pool) {
	const open = consumers.filter((consumer) => consumer.concurrency === void 0);
	const wanted = consumers.reduce((sum, consumer) => sum + (consumer.concurrency ?? 1), 0);
	const most = pool === void 0 ? Number.POSITIVE_INFINITY : pool.max - pool.control;
	if (pool !== void 0 && wanted > most) {
		const kept = pool.control > 0 ? ` and ${pool.control} for heartbeats` : "";
		throw new HapaxError("pool-too-small", `expected a pool of at least ${wanted + pool.control} connections (${wanted} for handlers${kept}), got ${pool.max}: enlarge the pool, or lower the concurrency of the consumers`, { fields: {
			needed: wanted + pool.control,
			max: pool.max
		} });
	}
	const each = Math.min(10, 1 + Math.floor((most - wanted) / Math.max(1, open.length)));
	return new Map(consumers.map((consumer) => [consumer, consumer.concurrency ?? each]));
}
/** Refuses what a subscription cannot give, and receipts that would be forgotten before the last redelivery. */
function checkSource({ consumer, subscription }) {
	const { name, settings } = consumer;
	const { ordersKeys, horizonMs } = subscription.features;
	if (consumer.ordered && !ordersKeys) throw new HapaxError("order-impossible", `expected a subscription that gives the messages of a key to one reader at a time, because ${name} wants order, got ${subscription.name}: use a single active consumer or a partitioned stream, or leave order out`, { fields: {
		consumer: name,
		subscription: subscription.name
	} });
	refuseShort(name, settings.retentionMs, horizonMs, `${subscription.name} may deliver a message again`);
}
/** Refuses receipts that would be forgotten while their message may still be tried again. */
function checkRetention({ name, settings }) {
	refuseShort(name, settings.retentionMs, retrySpanMs(settings.retry), "its retries may go on");
}
function refuseShort(consumer, retentionMs, horizonMs, why) {
	if (retentionMs === "forever" || horizonMs === void 0 || retentionMs >= horizonMs) return;
	throw new HapaxError("retention-too-short", `expected retentionMs of ${consumer} to be at least ${horizonMs} (${spoken(horizonMs)}), because ${why} for so long, got ${retentionMs} (${spoken(retentionMs)})`, { fields: {
		consumer,
		retentionMs,
		horizonMs
	} });
}
/** The longest time between the first and the last attempt. */
function retrySpanMs({ attempts, minDelayMs, maxDelayMs, factor }) {
	let span = 0;
	for (let attempt = 1; attempt < attempts && attempt < 1e4; attempt++) span += Math.min(maxDelayMs, minDelayMs * Math.min(Number.MAX_VALUE, factor ** attempt));
	return Math.ceil(span);
}
function spoken(ms) {
	const [name, size] = [
		["days", 864e5],
		["hours", 36e5],
		["minutes", 6e4],
		["seconds", 1e3]
	].find(([, each]) => ms >= each) ?? ["milliseconds", 1];
	return `${Math.round(ms / size * 10) / 10} ${name}`;
}
// src/core/worker.ts
/** Moves messages when nobody is calling: inboxes, outboxes, subscriptions, cleaning. Runs until it is stopped. */
var Worker = class {
	#engine;
	#settings;
	#onStop;
	#signal = new Signal();
	#abort = new AbortController();
	#membership;
	#inboxes = [];
	#relays = [];
	#readers = [];
	#cleaner;
	#state = "new";
	#started;
	#stopped;
	#loop;
	#asking = [];
	#errors = 0;
	#pauseMs = 0;
	/** Since when suspects run, one after the other. */
	#aloneSince;
	#suspect;
	#clearing = false;
	#patience = 1;
	#ignoreFloor = () => {};
	/** Made by `hapax.worker`. */
	constructor(engine, options, onStop) {
		this.#engine = engine;
		this.#settings = workerSettings(engine, options);
		this.#onStop = onStop;
		this.#membership = new Membership({
			store: engine.store,
			clock: engine.clock,
			random: engine.random,
			serves: this.#serves(),
			takeoverMs: this.#settings.takeoverMs,
			inHand: () => this.#inHand(),
			changed: () => this.#signal.notify(),
			buried: () => this.#drop(),
			report: (error) => this.#report(error)
		});
	}
	/**
	* Checks what can be checked, joins the other workers and begins. Rejects when the database is not there or not migrated,
	* when a broker refuses, or when the settings promise what cannot be kept.
	*/
	async start() {
		if (this.#state !== "new") throw new HapaxError("already-started", `expected a new worker, got one that is ${this.#state}`);
		this.#state = "starting";
		this.#started = this.#start();
		await this.#started;
	}
	async #start() {
		try {
			await this.#prepare();
			await this.#membership.join();
			for (const reader of this.#readers) await reader.start();
		} catch (error) {
			await Promise.allSettled(this.#readers.map((reader) => reader.close()));
			await this.#membership.leave();
			this.#state = "new";
			throw error;
		}
		this.#state = "running";
		this.#ignoreFloor = this.#floor.onChange(() => this.#changed());
		this.#cleaner?.start();
		this.#loop = this.#work();
	}
	/** Where its relays go. */
	get destinations() {
		return [...this.#settings.relays.values()];
	}
	/** Whether it runs and the database has heard from it lately: for a readiness probe. */
	get ready() {
		return this.#state === "running" && this.#membership.alive && this.#errors === 0;
	}
	/** Resolves when nothing is due and nothing is in hand, here or elsewhere; what waits for a later attempt is not due. */
	drain() {
		if (this.#state !== "running") return Promise.resolve();
		return new Promise((resolve) => {
			this.#asking.push(resolve);
			this.wake();
		});
	}
	/** Stops taking messages and waits for the handlers that are running, at most until the deadline. */
	async stop(options = {}) {
		noOthers("options of stop", options, ["deadlineMs"]);
		const { deadlineMs } = options;
		const limitMs = deadlineMs === Number.POSITIVE_INFINITY ? MAX_MS : numberFrom("deadlineMs", 0, deadlineMs, 3e4);
		const cancel = this.#engine.clock.after(limitMs, () => this.#abort.abort(stopped()));
		this.#stopped ??= this.#stop();
		await this.#stopped.finally(cancel);
	}
	async [Symbol.asyncDispose]() {
		await this.stop();
	}
	/** Something may be due. */
	wake() {
		this.#pauseMs = 0;
		this.#signal.notify();
	}
	async #prepare() {
		const { consumers, sources, relays } = this.#settings;
		for (const consumer of consumers) {
			consumer.start();
			checkRetention(consumer);
		}
		for (const source of sources) checkSource(source);
		const { store } = this.#engine;
		const places = shareOut(consumers, store.features.pool);
		await store.ready();
		for (const [name, { name: destination }] of relays) refuseMoved(name, destination, await store.recordRelay(name, destination));
		for (const { name, types, ordered } of consumers) await store.subscribe(name, types, ordered);
		this.#assemble(places);
	}
	#assemble(places) {
		const { consumers, sources, relays, keepSentMs, cleanup } = this.#settings;
		const rooms = new Map([...places].map(([consumer, count]) => [consumer, new Places(count)]));
		const room = (consumer) => ({
			concurrency: places.get(consumer),
			places: rooms.get(consumer)
		});
		const shared = {
			engine: this.#engine,
			membership: this.#membership,
			floor: this.#floor,
			signal: this.#abort.signal,
			changed: () => this.#changed(),
			report: (error) => this.#report(error)
		};
		this.#inboxes = consumers.map((consumer) => new InboxLine({
			...shared,
			consumer,
			...room(consumer)
		}));
		this.#relays = [...relays].map(([name, destination]) => new Relay({
			...shared,
			name,
			destination,
			keep: keepSentMs !== void 0
		}));
		this.#readers = sources.map((source) => new Reader({
			...shared,
			source,
			...room(source.consumer)
		}));
		if (cleanup) this.#cleaner = new Cleaner({
			...shared,
			consumers,
			relays: [...relays.keys()],
			keepSentMs
		});
	}
	async #stop() {
		await this.#started?.catch(() => {});
		if (this.#state === "running") await this.#windUp();
		this.#state = "stopped";
		this.#onStop(this);
		for (const resolve of this.#asking.splice(0)) resolve();
	}
	async #windUp() {
		this.#state = "stopping";
		this.#signal.notify();
		this.#floor.reopen(this);
		this.#ignoreFloor();
		this.#drop();
		const handing = Promise.allSettled([this.#membership.leave(), ...this.#readers.map((reader) => reader.pause())]);
		await Promise.race([handing, aborted(this.#abort.signal)]);
		const finished = Promise.allSettled([
			this.#loop,
			this.#cleaner?.stop(),
			...this.#running()
		]);
		await Promise.race([finished, aborted(this.#abort.signal)]);
		if (this.#abort.signal.aborted) await Promise.race([finished, pause(this.#engine.clock, ABORT_MS)]);
		const closing = Promise.allSettled(this.#readers.map((reader) => reader.close()));
		await Promise.race([closing, pause(this.#engine.clock, ABORT_MS)]);
	}
	#drop() {
		for (const line of this.#lines()) line.drop();
	}
	#lines() {
		return [...this.#inboxes, ...this.#relays];
	}
	#running() {
		return [...this.#lines(), ...this.#readers].flatMap((each) => each.running);
	}
	#serves() {
		const { consumers, relays } = this.#settings;
		return {
			get consumers() {
				return Object.fromEntries(consumers.map(({ name, types }) => [name, types]));
			},
			relays: [...relays.keys()]
		};
	}
	#inHand() {
		if (this.#suspect !== void 0) return {
			seqs: [this.#suspect],
			alone: true
		};
		return {
			seqs: this.#inboxes.flatMap((line) => line.about),
			alone: false
		};
	}
	/** Something ended: the next of what is in hand may begin, and there may be room for more. */
	#changed() {
		if (this.#state === "running" && this.#membership.alive) for (const line of this.#lines()) line.begin();
		this.#signal.notify();
	}
	async #work() {
		while (this.#state === "running") {
			const pauseMs = await this.#round().catch((error) => this.#backOff(error));
			if (pauseMs > 0 && this.#state === "running") await this.#signal.wait(this.#engine.clock, pauseMs);
		}
	}
	/** Takes what is due into hand and begins; answers how long to wait before the next look. */
	async #round() {
		const asking = this.#asking.splice(0);
		try {
			await this.#membership.ensureAlive();
			const began = this.#engine.clock.monotonic();
			const took = await this.#look();
			await this.#begin();
			this.#errors = 0;
			if (took) return this.#soon();
			if (asking.length > 0 && await this.#isDrained()) for (const resolve of asking.splice(0)) resolve();
			return this.#rest(asking.length > 0, this.#engine.clock.monotonic() - began);
		} finally {
			this.#asking.push(...asking);
		}
	}
	/** One statement for all lines that have room. */
	async #look() {
		const wanted = this.#lines().map((line) => ({
			line,
			shares: line.shares()
		}));
		const shares = wanted.flatMap((each) => each.shares);
		if (shares.length === 0) return false;
		const looks = await this.#engine.store.look(shares);
		if (this.#state !== "running") return false;
		let took = false;
		let from = 0;
		for (const { line, shares: own } of wanted) {
			if (own.length === 0) continue;
			const found = looks.slice(from, from + own.length);
			from += own.length;
			if (!line.offer(found)) continue;
			took = true;
		}
		return took;
	}
	get #floor() {
		return this.#engine.floor;
	}
	async #begin() {
		if (this.#suspect !== void 0 || this.#state !== "running") return;
		const next = this.#nextSuspect();
		if (next !== void 0) return this.#beginAlone(next.line, next.suspect);
		if (this.#inboxes.map((line) => line.putUp()).includes(true)) await this.#membership.note();
		if (this.#state !== "running") return;
		for (const line of this.#inboxes) line.noted();
		for (const line of this.#lines()) line.begin();
	}
	async #beginAlone(line, suspect) {
		const over = () => {
			this.#suspect = void 0;
			this.#signal.notify();
		};
		this.#suspect = suspect.seq;
		for (const each of this.#inboxes) each.unnoted();
		try {
			await this.#membership.note();
		} catch (error) {
			line.giveBack(suspect);
			over();
			throw error;
		}
		if (this.#state !== "running" || !this.#floor.empty) {
			line.giveBack(suspect);
			return over();
		}
		line.beginAlone(suspect);
		Promise.allSettled(line.running).then(over);
	}
	/** Suspects run one after the other on an empty floor, for a while; then the others have it for a while. */
	#nextSuspect() {
		const { clock } = this.#engine;
		const line = this.#inboxes.find((each) => each.suspects.length > 0);
		if (line === void 0 || clock.monotonic() - (this.#aloneSince ?? clock.monotonic()) > SUSPECTS_MS) {
			this.#aloneSince = void 0;
			this.#floor.reopen(this);
			return;
		}
		const cleared = this.#floor.clear(this, SUSPECTS_MS * this.#patience, SUSPECTS_MS);
		if (!this.#floor.empty) {
			if (this.#clearing && !cleared) this.#patience = Math.min(30, 2 * this.#patience);
			this.#clearing = cleared;
			return;
		}
		this.#clearing = false;
		this.#patience = 1;
		this.#aloneSince ??= clock.monotonic();
		const suspect = line.takeSuspect();
		return suspect && {
			line,
			suspect
		};
	}
	#soon() {
		this.#pauseMs = SOON_MS;
		return SOON_MS;
	}
	/** Looks less and less often while nothing comes, but in time for what is known to come. */
	#rest(asked, lookMs) {
		const { random } = this.#engine;
		const { pollMs } = this.#settings;
		this.#pauseMs = Math.min(pollMs, Math.max(SOON_MS, 2 * this.#pauseMs));
		const waits = [this.#pauseMs * (.75 + random.number() / 2)];
		if (asked) waits.push(ASKED_MS);
		for (const line of this.#lines()) {
			if (line.nextMs !== void 0) waits.push(line.nextMs);
			if (line.unfinished) waits.push(PACE * lookMs);
		}
		return Math.max(1, Math.min(...waits));
	}
	/** Whether nobody has anything to do: looks at everybody's lanes. */
	async #isDrained() {
		if (![...this.#lines(), ...this.#readers].every((each) => each.idle) || this.#suspect !== void 0) return false;
		let open = this.#lines().map((line) => ({
			line,
			after: NO_KEYS
		}));
		while (open.length > 0) {
			const looks = await this.#engine.store.look(open.flatMap(({ line, after }) => line.allShares(after)));
			const found = open.map(({ line }, index) => ({
				line,
				look: looks[index]
			}));
			if (found.some(({ line, look }) => look.entries.some((entry) => line.isDue(entry) && isHead(entry, look)))) return false;
			open = found.map(({ line, look }) => ({
				line,
				after: look.after
			})).filter(({ after }) => after.size > 0);
		}
		return true;
	}
	#backOff(thrown) {
		this.#report(asError$1(thrown));
		this.#errors = Math.min(this.#errors + 1, 10);
		return Math.min(MAX_BACK_OFF_MS, 100 * 2 ** this.#errors) * (.5 + this.#engine.random.number() / 2);
	}
	#report(error) {
		const consumers = this.#settings.consumers.map(({ name }) => name);
		const relays = [...this.#settings.relays.keys()];
		this.#engine.logger.error({
			consumers,
			relays,
			error: messageOf(error)
		}, "the worker goes on after an error");
		this.#engine.events.emit("worker-error", () => ({
			consumers,
			error
		}));
	}
};
const NO_KEYS = /* @__PURE__ */ new Map();
const SOON_MS = 20;
/** A rest between two pages of keys is so many times as long as the look. */
const PACE = 4;
const ASKED_MS = 50;
const ABORT_MS = 5e3;
const SUSPECTS_MS = 2e3;
const MAX_BACK_OFF_MS = 1e4;
/** What stands behind another message of its key is not due, whatever its time says. */
function isHead(entry, { entries }) {
	return entry.key === null || entries.find((each) => each.key === entry.key) === entry;
}
function refuseMoved(relay, destination, recorded) {
	if (recorded === destination) return;
	throw new HapaxError("relay-moved", `expected relay ${relay} to go to ${recorded}, as recorded by the first worker, got ${destination}: if the move is meant, run npx hapax relays move ${relay} '${destination}'`, { fields: {
		relay,
		recorded,
		destination
	} });
}
function aborted(signal) {
	return new Promise((resolve) => {
		if (signal.aborted) resolve();
		else signal.addEventListener("abort", () => resolve(), { once: true });
	});
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
	keys;
	sent;
	consumers;
	relays;
	activity = new Activity();
	#store;
	#engine;
	#publisher;
	#consumers = /* @__PURE__ */ new Map();
	#workers = /* @__PURE__ */ new Set();
	#destinations = /* @__PURE__ */ new Set();
	constructor(options) {
		const { store, clock = systemClock, random = systemRandom } = options;
		const logger = safeLogger(options.logger ?? consoleLogger);
		const maxBytes = positiveInteger("maxMessageBytes", options.maxMessageBytes, 1048576);
		const mintId = uuidv7Source(clock, random);
		this.#store = store;
		this.events = new EventHub(logger);
		this.#publisher = new Publisher({
			store,
			source: text$1("source", options.source, MAX_TEXT_BYTES),
			delivery: oneOf("delivery", ["relay", "local"], options.delivery, "relay"),
			maxBytes,
			clock,
			mintId,
			events: this.events,
			consumersOf: (type) => [...this.#consumers.values()].filter((each) => each.types.includes(type)),
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
			maxBytes,
			floor: new Floor(clock)
		};
		const tools = {
			store,
			clock,
			wake: () => this.#wake()
		};
		this.failed = new FailedStore({
			...tools,
			mintId,
			maxBytes
		});
		this.keys = new Keys(tools);
		this.sent = new Sent(tools);
		this.consumers = new Consumers(tools);
		this.relays = new Relays(tools);
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
		for (const destination of worker.destinations) this.#destinations.add(destination);
		this.#workers.add(worker);
		return worker;
	}
	status() {
		return this.#store.status();
	}
	explain(id, source) {
		return this.#store.trace(text$1("id", id, MAX_TEXT_BYTES), source);
	}
	cleanup(options) {
		return cleanup(this.#store, this.#engine.clock, options);
	}
	doctor() {
		return doctor(this.#store, () => this.#engine.clock.now());
	}
	async close() {
		if (this.activity.closed) return;
		this.activity.close();
		await Promise.all([...this.#workers].map((worker) => worker.stop()));
		await within(this.#engine.clock, CLOSE_MS, this.activity.idle(), () => {});
		await Promise.allSettled([...this.#destinations].map((destination) => destination.close()));
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
