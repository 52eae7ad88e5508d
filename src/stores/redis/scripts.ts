import { type Script, script } from './commands.ts'
import { REMEMBERING } from './remembering.ts'

// What has to be decided in one step runs in Redis, by its clock, and returns flat lists: every client reads those alike.
//
// A claim is a string, because that is what Redis writes and compares fastest:
//
//    1      state: o open, d done, f failed
//    2-37   token of the lease, or of the last one; blank: it is not leased
//   38-47   fence
//   48-61   when it may be claimed: the lease ends, or the next attempt is due
//   62-67   attempts
//   68-70   claims without an end
//   71      1 if there is more
//   72-85   when it was taken
//   86-     the receipt: source, id, type and fingerprint as JSON
//
// It never has a time to live before it is done: what is not finished stays, and only its lease ends. More is a hash beside it, in
// the same slot, with the same time to live:
//
//   p er hn hi    the token that let go of it last, and why; how often it failed, and its history
//   c q l me re eh fa rt   of a failed message: consumer, its number and that of the failure before, the message, reason, hash of
//                 the error, when, and for how long the receipt is kept afterwards; q and me stay while a retry is under way
//   e:… effects by name    w:… what people did    n counts both    o the last thing that a person did

const NOW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
`

const CLAIMS = `
local sub = string.sub
local NOBODY = string.rep(' ', 36)
local function moment(ms) return string.format('%014.0f', ms) end
local function more(key) return key .. ':more' end
local function has_more(v) return sub(v, 71, 71) == '1' end
local function known(key, v, field) return has_more(v) and redis.call('HGET', more(key), field) or '' end
-- Who has it, as a lease names itself: token and fence.
local function held(v, lease) return v and sub(v, 1, 1) == 'o' and sub(v, 2, 47) == lease end
local function prolong(key, until_ms) redis.call('SETRANGE', key, 47, moment(until_ms)) end
local function with_more(key) redis.call('SETRANGE', key, 70, '1') end
-- A cluster moves keys one by one: without the other half, a call that was made would seem not to have been.
local function torn(key, v) return v and has_more(v) and redis.call('EXISTS', more(key)) == 0 end
local TORN = redis.error_reply('TRYAGAIN half of a message is not on this node; the slot is being moved, or the key was evicted')
`

/**
 * Goes through the keys of a script that does the same to many: from `first` on, ARGV has the number of heads, each head with the
 * number of keys that share it, and then a word for each key. An empty result stands for 1 for each key.
 */
const EACH = `
local function each(first, work)
  local words = first + 2 * ARGV[first]
  local last = 0
  for at = first + 1, words, 2 do
    local from = last + 1
    last = last + ARGV[at + 1]
    for i = from, last do work(i, KEYS[i], ARGV[at], ARGV[words + i]) end
  end
end
`

/** Claims what is open; returns fence, attempts and crashes. */
const TAKE = `
local function take(key, v, token, lease)
  local fence, attempts, crashes = tonumber(sub(v, 38, 47)), tonumber(sub(v, 62, 67)), tonumber(sub(v, 68, 70))
  if sub(v, 2, 37) == token then
    prolong(key, now + lease)
    return fence, attempts, crashes - 1
  end
  local taken = token .. string.format('%010.0f', fence + 1) .. moment(now + lease) .. sub(v, 62, 67)
  redis.call('SETRANGE', key, 1, taken .. string.format('%03.0f', math.min(crashes + 1, 999)))
  return fence + 1, attempts, crashes
end
local out = {}
local function say(...)
  for i = 1, select('#', ...) do out[#out + 1] = select(i, ...) end
end
`

/**
 * KEYS: claims, each once. ARGV: lease, alone; heads: tokens; words: receipts. Mostly nobody had any of them, and one command sees to
 * all; it writes nothing if there is one that somebody had.
 */
export const CLAIM: Script = script(`${NOW}${CLAIMS}${EACH}${TAKE}
local lease, alone = tonumber(ARGV[1]), ARGV[2] == '1'
local fresh = '0000000001' .. moment(now + lease) .. '000000' .. '001' .. '0' .. moment(now)
local values = {}
each(3, function(i, key, token, receipt)
  values[2 * i - 1], values[2 * i] = key, 'o' .. token .. fresh .. receipt
end)
if redis.call('MSETNX', unpack(values)) == 1 then return out end
each(3, function(i, key, token)
  local v = redis.call('SET', key, values[2 * i], 'NX', 'GET')
  if not v then
    say(1)
  elseif sub(v, 1, 1) ~= 'o' then
    say('taken', sub(v, 1, 1), known(key, v, 'q'), sub(v, 2, 37), sub(v, 72, 85), sub(v, 86))
  else
    local owner, due = sub(v, 2, 37), tonumber(sub(v, 48, 61))
    if owner ~= token and due > now then
      if owner == NOBODY then say('waiting', due - now) else say('busy') end
    elseif owner ~= token and sub(v, 68, 70) ~= '000' and not alone then
      say('suspect', tonumber(sub(v, 68, 70)))
    else
      say('ours', take(key, v, token, lease))
    end
  end
end)
return out
`)

/** KEYS: claims. ARGV: lease; heads: tokens; words: the number of the failure that is tried again. */
export const CLAIM_STORED: Script = script(`${NOW}${CLAIMS}${EACH}${TAKE}
local lease, lost = tonumber(ARGV[1]), false
each(2, function(_, key, token, seq)
  local v = redis.call('GET', key)
  local state = v and sub(v, 1, 1)
  lost = lost or torn(key, v)
  if lost then return end
  if state == 'f' then
    say('failed', known(key, v, 'q'))
  elseif state ~= 'o' or known(key, v, 'q') ~= seq then
    say('gone')
  elseif sub(v, 2, 37) ~= token and tonumber(sub(v, 48, 61)) > now then
    say('busy', tonumber(sub(v, 48, 61)) - now)
  else
    say('ours', take(key, v, token, lease))
    say(sub(v, 86), redis.call('HGET', more(key), 'me'))
  end
end)
return lost and TORN or out
`)

/** KEYS: claims. ARGV: lease; heads: who has them. */
export const RENEW: Script = script(`${NOW}${CLAIMS}${EACH}
local out = {}
each(2, function(i, key, lease)
  local still = held(redis.call('GETRANGE', key, 0, 46), lease)
  if still then prolong(key, now + tonumber(ARGV[1])) end
  out[i] = still and 1 or 0
end)
return out
`)

/**
 * KEYS: claims. ARGV: how long to keep them; heads: who has them. Answers 0: it was not theirs; 1: done; or done, and the number of
 * the retry that is over, after a mark, because clients may read numbers as texts.
 */
export const SETTLE: Script = script(`${NOW}${CLAIMS}${EACH}
-- One moment for both: were the claim gone before the rest, the next one would find a journal that is not its own.
local ends = ARGV[1] ~= '' and string.format('%.0f', now + ARGV[1])
local function forget(key)
  redis.call('HDEL', more(key), 'er', 'hn', 'hi', 'me', 're', 'eh', 'fa', 'rt', 'c')
  if ends then redis.call('PEXPIREAT', more(key), ends) end
end
local function settle(key, v, lease)
  if not v or sub(v, 2, 47) ~= lease or sub(v, 1, 1) == 'f' then return 0 end
  if sub(v, 1, 1) == 'o' then
    local done = 'd' .. sub(v, 2)
    if ends then redis.call('SET', key, done, 'PXAT', ends) else redis.call('SET', key, done) end
    if has_more(v) then forget(key) end
  end
  local retry = known(key, v, 'q')
  return retry == '' and 1 or '#' .. retry
end
local values = redis.call('MGET', unpack(KEYS))
for i, key in ipairs(KEYS) do
  if torn(key, values[i]) then return TORN end
end
local out, plain = {}, true
each(2, function(i, key, lease)
  out[i] = settle(key, values[i], lease)
  plain = plain and out[i] == 1
end)
return plain and {} or out
`)

/** KEYS: a claim. ARGV: token, fence, attempts, crashes, delay, error, entry or nothing. Answers whether, and the retry that it belongs to. */
export const RELEASE: Script = script(`${NOW}${CLAIMS}${REMEMBERING}
local key, token = KEYS[1], ARGV[1]
local v = redis.call('GET', key)
if torn(key, v) then return TORN end
if held(v, token .. ARGV[2]) then
  local attempts = string.format('%06.0f', math.min(tonumber(ARGV[3]), 999999))
  local crashes = string.format('%03.0f', math.min(tonumber(ARGV[4]), 999))
  local open = NOBODY .. ARGV[2] .. moment(now + tonumber(ARGV[5])) .. attempts .. crashes .. '1'
  redis.call('SETRANGE', key, 1, open)
  redis.call('HSET', more(key), 'p', token, 'er', ARGV[6])
  if ARGV[7] ~= '' then remember(key, tonumber(ARGV[3]), ARGV[7]) end
elseif not v or known(key, v, 'p') ~= token then
  return { 0, '' }
end
return { 1, redis.call('HGET', more(key), 'q') or '' }
`)

/**
 * KEYS: a claim. ARGV: lease, seq, attempts, entry, then fields and values. Answers whether, the seq of the failure, and the retry that is over.
 * One that fails again has the number of the failure before, under a mark of its own: entries of both may be in the lists for a moment.
 */
export const FAIL: Script = script(`${NOW}${CLAIMS}${REMEMBERING}
local key, lease, seq = KEYS[1], ARGV[1], ARGV[2]
local v = redis.call('GET', key)
if torn(key, v) then return TORN end
if v and sub(v, 1, 1) == 'f' and sub(v, 2, 47) == lease then
  return { 1, known(key, v, 'q'), known(key, v, 'l') }
end
if not held(v, lease) then return { 0, '', '' } end
local before = known(key, v, 'q')
if before ~= '' then seq = string.match(before, '^%d+') .. string.match(seq, '%-%d+$') end
local attempts = string.format('%06.0f', math.min(tonumber(ARGV[3]), 999999))
redis.call('SET', key, 'f' .. sub(v, 2, 61) .. attempts .. '000' .. '1' .. sub(v, 72))
redis.call('HSET', more(key), 'q', seq, 'l', before, 'fa', now, unpack(ARGV, 5))
remember(key, tonumber(ARGV[3]), ARGV[4])
return { 1, seq, before }
`)

/** KEYS: a name of its own. ARGV: seq, receipt, attempts, entry, then fields and values. Answers its number, or nothing if it was dealt with. */
export const KEEP: Script = script(`${NOW}${CLAIMS}${REMEMBERING}
local key, seq = KEYS[1], ARGV[1]
local blank = 'f' .. NOBODY .. '0000000000' .. moment(0) .. '000000' .. '000' .. '1' .. moment(now)
local v = redis.call('SET', key, blank .. ARGV[2], 'NX', 'GET')
if v then return { sub(v, 1, 1) == 'f' and known(key, v, 'q') or '' } end
redis.call('HSET', more(key), 'q', seq, 'fa', now, unpack(ARGV, 5))
remember(key, tonumber(ARGV[3]), ARGV[4])
return { seq }
`)

/** Writes an effect, and returns it as it was before. */
const EFFECT = `
local function effect(key, name)
  local packed = redis.call('HGET', more(key), 'e:' .. name)
  return packed and cmsgpack.unpack(packed)
end
local function write(key, name, before, change)
  local row = before or { first = now, attempts = 0, order = redis.call('HINCRBY', more(key), 'n', 1) }
  for field, value in pairs(change) do row[field] = value end
  row.last = now
  with_more(key)
  redis.call('HSET', more(key), 'e:' .. name, cmsgpack.pack(row))
end
local function tell(out, name, row)
  local values = { name, row.state, row.token, row.attempts, row.result, row.error, row.first, row.last, row.order }
  for _, value in ipairs(values) do out[#out + 1] = value end
end
`

/** KEYS: a claim. ARGV: token, fence, lease, name, again. Answers whether, and the effect as it was before. */
export const BEGIN_EFFECT: Script = script(`${NOW}${CLAIMS}${EFFECT}
local key, token, name = KEYS[1], ARGV[1], ARGV[4]
local v = redis.call('GETRANGE', key, 0, 70)
if not held(v, token .. ARGV[2]) then return { 0 } end
if torn(key, v) then return TORN end
prolong(key, now + tonumber(ARGV[3]))
local before = effect(key, name)
local out = { 1 }
if before then tell(out, name, before) end
local state = before and before.state
if not state or state == 'not-done' or (ARGV[5] == '1' and state ~= 'done') then
  local attempts = (before and before.attempts or 0) + 1
  write(key, name, before, { state = 'started', token = token, attempts = attempts, result = '', error = '' })
end
return out
`)

/** KEYS: a claim. ARGV: token, fence, name, state, result, error. */
export const END_EFFECT: Script = script(`${NOW}${CLAIMS}${EFFECT}
local key, token, name = KEYS[1], ARGV[1], ARGV[3]
local v = redis.call('GETRANGE', key, 0, 70)
if not held(v, token .. ARGV[2]) then return { 0 } end
if torn(key, v) then return TORN end
local before = effect(key, name)
local attempts = before and before.attempts or 1
write(key, name, before, { state = ARGV[4], token = token, attempts = attempts, result = ARGV[5], error = ARGV[6] })
return { 1 }
`)

/** KEYS: a claim. */
export const EFFECTS: Script = script(`${NOW}${CLAIMS}${EFFECT}
local out = {}
if torn(KEYS[1], redis.call('GETRANGE', KEYS[1], 0, 70)) then return TORN end
local fields = redis.call('HGETALL', more(KEYS[1]))
for i = 1, #fields, 2 do
  if sub(fields[i], 1, 2) == 'e:' then tell(out, sub(fields[i], 3), cmsgpack.unpack(fields[i + 1])) end
end
return out
`)

/** Writes down what a person did; `act` is a name for this one action, so that it is done once. */
const DEED = `
local function was_done(key, act)
  return redis.call('HGET', more(key), 'o') == act
end
local function deed(key, act, audit)
  redis.call('HSET', more(key), 'o', act, 'w:' .. redis.call('HINCRBY', more(key), 'n', 1), now .. ' ' .. audit)
end
`

/** KEYS: a claim. ARGV: act, audit, name, state, result, error. */
export const SETTLE_EFFECT: Script = script(`${NOW}${CLAIMS}${EFFECT}${DEED}
local key, act, name = KEYS[1], ARGV[1], ARGV[3]
local v = redis.call('GETRANGE', key, 0, 70)
if torn(key, v) then return TORN end
if was_done(key, act) then return { 1 } end
if sub(v, 1, 1) ~= 'f' then return { 0 } end
local before = effect(key, name)
if not before then return { 0 } end
local lost = before.state == 'done' and before.result == '' and ARGV[4] == 'done'
local by_hand = (before.state == 'done' or before.state == 'not-done') and sub(before.error, 1, 18) == '={"name":"Settled"'
if before.state ~= 'started' and before.state ~= 'unknown' and not lost and not by_hand then return { 0 } end
write(key, name, before, { state = ARGV[4], result = ARGV[5], error = ARGV[6] })
deed(key, act, ARGV[2])
return { 1 }
`)

/** KEYS: a claim. ARGV: act, audit, seq. A retry that was interrupted is one as well. */
export const RETRY: Script = script(`${NOW}${CLAIMS}${DEED}
local key, act, seq = KEYS[1], ARGV[1], ARGV[3]
local v = redis.call('GET', key)
if torn(key, v) then return TORN end
if not v or known(key, v, 'q') ~= seq then return { 0 } end
if sub(v, 1, 1) == 'o' then return { 1 } end
if sub(v, 1, 1) ~= 'f' then return { 0 } end
redis.call('SET', key, 'o' .. NOBODY .. sub(v, 38, 47) .. moment(0) .. '000000' .. '000' .. sub(v, 71))
redis.call('HDEL', more(key), 'p')
deed(key, act, ARGV[2])
return { 1 }
`)

/** KEYS: a claim. ARGV: act, audit, seq. */
export const DISCARD: Script = script(`${NOW}${CLAIMS}${DEED}
local key, act = KEYS[1], ARGV[1]
local v = redis.call('GET', key)
if torn(key, v) then return TORN end
if was_done(key, act) then return { 1 } end
if not v or sub(v, 1, 1) ~= 'f' or known(key, v, 'q') ~= ARGV[3] then return { 0 } end
local keep = redis.call('HGET', more(key), 'rt')
redis.call('HDEL', more(key), 'me', 're', 'er', 'hn', 'hi', 'eh', 'fa', 'rt', 'c', 'q')
deed(key, act, ARGV[2])
redis.call('SET', key, 'd' .. sub(v, 2))
if keep and keep ~= '' then
  redis.call('PEXPIREAT', key, now + tonumber(keep))
  redis.call('PEXPIREAT', more(key), now + tonumber(keep))
end
return { 1 }
`)

/** KEYS: a claim. ARGV: which fields. Answers state, token, due, attempts, taken, receipt, and the fields; nothing: it is not there. */
export const READ: Script = script(`${CLAIMS}
local key = KEYS[1]
local v = redis.call('GET', key)
if not v then return {} end
local out = { sub(v, 1, 1), sub(v, 2, 37), sub(v, 48, 61), sub(v, 62, 67), sub(v, 72, 85), sub(v, 86) }
for i, field in ipairs(ARGV) do out[6 + i] = redis.call('HGET', more(key), field) end
return out
`)

/** KEYS: a claim. What people did to it: when, and what. */
export const DEEDS: Script = script(`${CLAIMS}
local out = {}
local fields = redis.call('HGETALL', more(KEYS[1]))
for i = 1, #fields, 2 do
  if sub(fields[i], 1, 2) == 'w:' then out[#out + 1] = fields[i + 1] end
end
return out
`)

/** KEYS: a line. ARGV: how many. Answers in how many milliseconds the next one is due, and those that are. */
export const DUE: Script = script(`${NOW}
local limit = tonumber(ARGV[1])
local due = redis.call('ZRANGE', KEYS[1], '-inf', now, 'BYSCORE', 'LIMIT', 0, limit)
local next = redis.call('ZRANGE', KEYS[1], '(' .. now, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
local left = next[2] and (tonumber(next[2]) - now) or ''
if #due == limit then left = 0 end
return { left, unpack(due) }
`)

/** KEYS: a line, or those on their way. ARGV: delay, entry. */
export const ENQUEUE: Script = script(`${NOW}
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[1]), ARGV[2])
return {}
`)

/** KEYS: a line. ARGV: delay, entry. One that is not there any more stays away. */
export const POSTPONE: Script = script(`${NOW}
redis.call('ZADD', KEYS[1], 'XX', now + tonumber(ARGV[1]), ARGV[2])
return {}
`)

/** KEYS: those on their way. ARGV: age. */
export const STRANDED: Script = script(`${NOW}
return redis.call('ZRANGE', KEYS[1], '-inf', now - tonumber(ARGV[1]), 'BYSCORE', 'LIMIT', 0, 100)
`)
