import type { Word } from './client.ts'
import type { Link, Reply } from './link.ts'
import { CUT_BYTES, CUT_FIELDS } from './wire.ts'

// Lua scripts for decisions that must be atomic. The first key is the stream. The second, if there is one, names the active reader.

/**
 * Adds an entry to the reply and returns its size. Of an entry larger than `most`, only the beginning is returned, with its full
 * size beside it (otherwise zero): a reader that could never receive all of it would be stuck there.
 */
const ADD = `
local function add(entries, sizes, entry, most)
  local size = 0
  for _, word in ipairs(entry[2]) do size = size + #word end
  if size <= most then
    table.insert(sizes, 0)
    table.insert(entries, entry)
    return size
  end
  local words, left = {}, 0
  for at, word in ipairs(entry[2]) do
    if at > ${2 * CUT_FIELDS} then break end
    words[at] = string.sub(word, 1, ${CUT_BYTES})
    left = left + #words[at]
  end
  table.insert(sizes, size)
  table.insert(entries, { entry[1], words })
  return left
end
`

/**
 * Takes over entries that have been idle for a while, and returns how often each was delivered. One by one, as long as they fit:
 * all of them at once may need more memory than Redis or the reader has.
 */
const CLAIM = `${ADD}
local group, consumer, idle, cursor = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local count, room, most = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local entries, sizes, counts, gone = {}, {}, {}, {}
for _ = 1, count do
  local found = redis.call('XAUTOCLAIM', KEYS[1], group, consumer, idle, cursor, 'COUNT', 1)
  cursor = found[1]
  for _, entry in ipairs(found[2]) do
    table.insert(counts, redis.call('XPENDING', KEYS[1], group, entry[1], entry[1], 1)[1][4])
    room = room - add(entries, sizes, entry, most)
  end
  for _, id in ipairs(found[3] or {}) do table.insert(gone, id) end
  if cursor == '0-0' or room <= 0 then break end
end
return { cursor, entries, counts, gone, sizes }
`

/**
 * Moves entries from one consumer to another, or to itself, with the given idle time. Skips entries that another consumer has by
 * now. Returns those, and the entries that had been removed from the stream. An entry that is neither pending nor in the stream was
 * reported before: Redis drops such entries at the next claim.
 */
const HAND_OVER = `
local group, from, to, idle = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local ours, taken, gone = {}, {}, {}
for i = 5, #ARGV do
  local id = ARGV[i]
  if #redis.call('XPENDING', KEYS[1], group, id, id, 1, from) > 0 then table.insert(ours, id)
  elseif #redis.call('XRANGE', KEYS[1], id, id) > 0 then table.insert(taken, id) end
end
if #ours > 0 then
  local command = { 'XCLAIM', KEYS[1], group, to, 0 }
  for _, id in ipairs(ours) do table.insert(command, id) end
  for _, word in ipairs({ 'IDLE', idle, 'JUSTID' }) do table.insert(command, word) end
  local there = {}
  for _, id in ipairs(redis.call(unpack(command))) do there[id] = true end
  for _, id in ipairs(ours) do if not there[id] then table.insert(gone, id) end end
end
return { taken, gone }
`

/** Moves everything that a consumer has, then deletes the consumer. Deleting it first would lose its pending entries. */
const LEAVE = `
local group, from, to, idle = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local gone = {}
while true do
  local pending = redis.call('XPENDING', KEYS[1], group, '-', '+', 500, from)
  if #pending == 0 then break end
  local command = { 'XCLAIM', KEYS[1], group, to, 0 }
  for _, each in ipairs(pending) do table.insert(command, each[1]) end
  for _, word in ipairs({ 'IDLE', idle, 'JUSTID' }) do table.insert(command, word) end
  local there = {}
  for _, id in ipairs(redis.call(unpack(command))) do there[id] = true end
  for _, each in ipairs(pending) do if not there[each[1]] then table.insert(gone, each[1]) end end
end
redis.call('XGROUP', 'DELCONSUMER', KEYS[1], group, from)
return gone
`

/** Redis returns properties as a flat list of names and values. */
const AS_TABLE = `
local function as_table(list)
  local found = {}
  for i = 1, #list, 2 do found[list[i]] = list[i + 1] end
  return found
end
`

/** Up to where a group is finished: everything before its oldest unfinished entry, or all that was ever delivered. */
const FINISHED = `
local function finished(group)
  if group.pending == 0 then return group['last-delivered-id'] end
  return redis.call('XPENDING', KEYS[1], group.name)[2]
end
`

/** Deletes dead readers without pending entries, and returns up to where the group is finished. */
const TIDY = `${AS_TABLE}${FINISHED}
local name, prefix, idle = ARGV[1], ARGV[2], tonumber(ARGV[3])
for _, each in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], name)) do
  local consumer = as_table(each)
  local is_ours = string.sub(consumer.name, 1, #prefix) == prefix
  if is_ours and consumer.pending == 0 and consumer.idle > idle then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], name, consumer.name)
  end
end
for _, each in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local group = as_table(each)
  if group.name == name then return finished(group) end
end
`

/**
 * Removes entries that every group has finished, except those to keep. Atomic, because a group that was created between the check
 * and the removal would lose entries that it has not read.
 */
const TRIM = `${AS_TABLE}${FINISHED}
local keep_ms, keep_entries = tonumber(ARGV[1]), tonumber(ARGV[2])
local function is_before(a, b)
  local a_ms, a_seq = string.match(a, '^(%d+)-(%d+)$')
  local b_ms, b_seq = string.match(b, '^(%d+)-(%d+)$')
  if #a_ms ~= #b_ms then return #a_ms < #b_ms end
  if a_ms ~= b_ms then return a_ms < b_ms end
  if #a_seq ~= #b_seq then return #a_seq < #b_seq end
  return a_seq < b_seq
end
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local groups = redis.call('XINFO', 'GROUPS', KEYS[1])
if #groups == 0 then return 0 end
local spare = redis.call('XLEN', KEYS[1]) - keep_entries
if spare <= 0 then return 0 end
local time = redis.call('TIME')
local limit = string.format('%.0f-0', math.max(0, time[1] * 1000 + math.floor(time[2] / 1000) - keep_ms))
for _, each in ipairs(groups) do
  local done = finished(as_table(each))
  if is_before(done, limit) then limit = done end
end
return redis.call('XTRIM', KEYS[1], 'MINID', '~', limit, 'LIMIT', math.min(spare, 10000))
`

/** Takes the turn if it is free, and with it all unfinished entries. Returns those that were removed from the stream. */
const BEGIN = `
local group, name, lease = ARGV[1], ARGV[2], ARGV[3]
local holder = redis.call('GET', KEYS[2])
local free = not holder or holder == name
for at = 4, #ARGV do free = free or holder == ARGV[at] end
if not free then return false end
local start, gone = '-', {}
while true do
  local pending = redis.call('XPENDING', KEYS[1], group, start, '+', 500)
  if #pending == 0 then break end
  local command = { 'XCLAIM', KEYS[1], group, name, 0 }
  for _, each in ipairs(pending) do table.insert(command, each[1]) end
  table.insert(command, 'JUSTID')
  local there = {}
  for _, id in ipairs(redis.call(unpack(command))) do there[id] = true end
  for _, each in ipairs(pending) do if not there[each[1]] then table.insert(gone, each[1]) end end
  start = '(' .. pending[#pending][1]
end
-- Last, because what a script wrote before an error stays: a reader whose group is missing would wait for its own lease to end.
redis.call('SET', KEYS[2], name, 'PX', lease)
return gone
`

/** Prolongs the turn, if it is still ours. */
const KEEP = `
if redis.call('GET', KEYS[2]) ~= ARGV[2] then return 0 end
return redis.call('PEXPIRE', KEYS[2], ARGV[3])
`

/** Gives up the turn, if it is still ours. */
const END = `
if redis.call('GET', KEYS[2]) ~= ARGV[2] then return 0 end
return redis.call('DEL', KEYS[2])
`

/** Returns entries to the holder of the turn, as long as they fit: first unfinished ones, then new ones. */
const NEXT = `${AS_TABLE}${ADD}
local group, name, cursor = ARGV[1], ARGV[2], ARGV[3]
local count, room, most = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if redis.call('GET', KEYS[2]) ~= name then return false end
local function read(from)
  local reply = redis.call('XREADGROUP', 'GROUP', group, name, 'COUNT', 1, 'STREAMS', KEYS[1], from)
  return reply and reply[1][2][1]
end
local entries, sizes, counts, gone = {}, {}, {}, {}
local function full() return #entries + #gone >= count or room <= 0 end
local from = cursor
while cursor ~= '>' and not full() do
  local entry = read(cursor)
  if not entry then break end
  cursor = entry[1]
  if entry[2] then
    table.insert(counts, redis.call('XPENDING', KEYS[1], group, cursor, cursor, 1)[1][4])
    room = room - add(entries, sizes, entry, most)
  else
    redis.call('XACK', KEYS[1], group, cursor)
    table.insert(gone, cursor)
  end
end
if cursor ~= from then return { cursor, entries, counts, gone, false, sizes } end
while not full() do
  local entry = read('>')
  if not entry then break end
  table.insert(counts, 1)
  room = room - add(entries, sizes, entry, most)
end
if #entries > 0 then return { '>', entries, counts, gone, false, sizes } end
for _, each in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local known = as_table(each)
  if known.name == group then return { '>', entries, counts, gone, known['last-delivered-id'], sizes } end
end
`

type Script = 'CLAIM' | 'HAND_OVER' | 'LEAVE' | 'TIDY' | 'TRIM' | 'BEGIN' | 'KEEP' | 'NEXT' | 'END'

const SCRIPTS: Readonly<Record<Script, string>> = { CLAIM, HAND_OVER, LEAVE, TIDY, TRIM, BEGIN, KEEP, NEXT, END }

/** Runs a script on these keys. */
export function run(link: Link, script: Script, keys: readonly string[], words: readonly Word[]): Promise<Reply> {
  return link.call(['EVAL', SCRIPTS[script], `${keys.length}`, ...keys, ...words])
}
