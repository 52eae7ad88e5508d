import { script } from './commands.ts'

// What has to be decided in one step runs in Redis, by its clock, and answers flat lists: every client reads those alike.
//
// A claim is a hash. It never has a time to live before it is done: what is not finished stays, and only its lease ends.
//   s   'o' open, 'd' done, 'f' failed         k f  token and fence of whoever has it, or had it last
//   p   the token that was let go of last       u    when it may be claimed: the lease ends, or the next attempt is due
//   a   attempts    x  claims without an end    so id ty fp at  the receipt
//   c q me re er eh fa rt  of a failed message: consumer, its number, the message, reason, error, its hash, when, and for how
//                          long the receipt is kept afterwards; q and me stay while a person's retry is under way; l is
//                          the number of the failure before
//   e:… effects by name    w:… what people did    n  counts both    o  the last thing that a person did

const NOW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
`

/** Whether a claim is held by this lease. */
const HELD = `
local function held(key, token, fence)
  local row = redis.call('HMGET', key, 's', 'k', 'f')
  return row[1] == 'o' and row[2] == token and row[3] == fence
end
`

/** Claims one message that is open; answers fence, attempts and crashes, or nothing. */
const TAKE = `
local function take(key, row, token, lease)
  local fence, attempts, crashes = tonumber(row.f), tonumber(row.a), tonumber(row.x)
  if row.k == token then
    redis.call('HSET', key, 'u', now + lease)
    return fence, attempts, crashes - 1
  end
  redis.call('HSET', key, 'k', token, 'f', fence + 1, 'u', now + lease, 'x', crashes + 1)
  return fence + 1, attempts, crashes
end
local function read(key)
  local row = redis.call('HMGET', key, 's', 'k', 'f', 'u', 'a', 'x', 'q')
  return { s = row[1], k = row[2], f = row[3], u = tonumber(row[4] or 0), a = row[5], x = row[6], q = row[7] }
end
`

/** KEYS: claims. ARGV: token, lease, alone; for each the receipt. */
export const CLAIM = script(`${NOW}${TAKE}
local token, lease, alone = ARGV[1], tonumber(ARGV[2]), ARGV[3] == '1'
local out = {}
local function say(...)
  for _, each in ipairs({ ... }) do out[#out + 1] = each end
end
for i, key in ipairs(KEYS) do
  local source, id, type, fingerprint = unpack(ARGV, 4 * i, 4 * i + 3)
  local row = read(key)
  if not row.s then
    redis.call('HSET', key, 's', 'o', 'k', token, 'f', 1, 'u', now + lease, 'a', 0, 'x', 1,
      'so', source, 'id', id, 'ty', type, 'fp', fingerprint, 'at', now)
    say('ours', 1, 0, 0)
  elseif row.s ~= 'o' then
    say('taken', row.s, row.q or '', unpack(redis.call('HMGET', key, 'k', 'so', 'id', 'ty', 'fp', 'at')))
  elseif row.k ~= token and row.u > now then
    if row.k == '' then say('waiting', row.u - now) else say('busy') end
  elseif row.k ~= token and tonumber(row.x) > 0 and not alone then
    say('suspect')
  else
    say('ours', take(key, row, token, lease))
  end
end
return out
`)

/** KEYS: claims. ARGV: token, lease; for each the number of the failure that is tried again. */
export const CLAIM_STORED = script(`${NOW}${TAKE}
local token, lease = ARGV[1], tonumber(ARGV[2])
local out = {}
local function say(...)
  for _, each in ipairs({ ... }) do out[#out + 1] = each end
end
for i, key in ipairs(KEYS) do
  local row = read(key)
  if row.s == 'f' then
    say('failed', row.q)
  elseif row.s ~= 'o' or row.q ~= ARGV[2 + i] then
    say('gone')
  elseif row.k ~= token and row.u > now then
    say('busy', row.u - now)
  else
    say('ours', take(key, row, token, lease))
    say(unpack(redis.call('HMGET', key, 'so', 'id', 'ty', 'fp', 'me')))
  end
end
return out
`)

/** KEYS: claims. ARGV: lease; for each token and fence. */
export const RENEW = script(`${NOW}${HELD}
local out = {}
for i, key in ipairs(KEYS) do
  local still = held(key, ARGV[2 * i], ARGV[2 * i + 1])
  if still then redis.call('HSET', key, 'u', now + tonumber(ARGV[1])) end
  out[i] = still and 1 or 0
end
return out
`)

/** KEYS: claims. ARGV: how long to keep them; for each token and fence. Answers whether, and the retry that is over. */
export const SETTLE = script(`
local out = {}
for i, key in ipairs(KEYS) do
  local row = redis.call('HMGET', key, 's', 'k', 'f', 'p', 'q')
  local ours = row[2] == ARGV[2 * i] and row[3] == ARGV[2 * i + 1]
  if ours and row[1] == 'o' then
    redis.call('HSET', key, 's', 'd')
    if row[4] or row[5] then redis.call('HDEL', key, 'er', 'me', 're', 'eh', 'fa', 'rt', 'c') end
    if ARGV[1] ~= '' then redis.call('PEXPIRE', key, ARGV[1]) end
  end
  out[2 * i - 1] = (ours and row[1] ~= 'f') and 1 or 0
  out[2 * i] = row[5] or ''
end
return out
`)

/** KEYS: a claim. ARGV: token, fence, attempts, delay, error. Answers whether, and the retry that it belongs to. */
export const RELEASE = script(`${NOW}${HELD}
local key, token = KEYS[1], ARGV[1]
local ours = held(key, token, ARGV[2])
if ours then
  redis.call('HSET', key, 'k', '', 'p', token, 'a', ARGV[3], 'u', now + tonumber(ARGV[4]), 'x', 0, 'er', ARGV[5])
end
local row = redis.call('HMGET', key, 'p', 'q')
return { (ours or row[1] == token) and 1 or 0, row[2] or '' }
`)

/**
 * KEYS: a claim. ARGV: token, fence, seq, then fields and values. Answers whether, the number of the failure, and the retry that
 * is over.
 */
export const FAIL = script(`${NOW}${HELD}
local key, token, fence, seq = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local row = redis.call('HMGET', key, 's', 'k', 'f', 'q', 'l')
if row[1] == 'f' and row[2] == token and row[3] == fence then return { 1, row[4], row[5] } end
if not held(key, token, fence) then return { 0, '', '' } end
redis.call('HSET', key, 's', 'f', 'q', seq, 'l', row[4] or '', 'x', 0, 'fa', now, unpack(ARGV, 4))
return { 1, seq, row[4] or '' }
`)

/** KEYS: a name of its own. ARGV: seq, then fields and values. Answers the number of the failure, or nothing if it was dealt with. */
export const KEEP = script(`${NOW}
local key, seq = KEYS[1], ARGV[1]
local row = redis.call('HMGET', key, 's', 'q')
if row[1] == 'f' then return { row[2] } end
if row[1] then return { '' } end
redis.call('HSET', key, 's', 'f', 'q', seq, 'k', '', 'f', 0, 'x', 0, 'at', now, 'fa', now, unpack(ARGV, 2))
return { seq }
`)

/** Writes an effect, and answers it as it was before. */
const EFFECT = `
local function effect(key, name)
  local packed = redis.call('HGET', key, 'e:' .. name)
  return packed and cmsgpack.unpack(packed)
end
local function write(key, name, before, change)
  local row = before or { first = now, attempts = 0, order = redis.call('HINCRBY', key, 'n', 1) }
  for field, value in pairs(change) do row[field] = value end
  row.last = now
  redis.call('HSET', key, 'e:' .. name, cmsgpack.pack(row))
end
local function say(out, name, row)
  local values = { name, row.state, row.token, row.attempts, row.result, row.error, row.first, row.last, row.order }
  for _, value in ipairs(values) do out[#out + 1] = value end
end
`

/** KEYS: a claim. ARGV: token, fence, lease, name, again. Answers whether, and the effect as it was before. */
export const BEGIN_EFFECT = script(`${NOW}${HELD}${EFFECT}
local key, token, name = KEYS[1], ARGV[1], ARGV[4]
if not held(key, token, ARGV[2]) then return { 0 } end
redis.call('HSET', key, 'u', now + tonumber(ARGV[3]))
local before = effect(key, name)
local out = { 1 }
if before then say(out, name, before) end
local state = before and before.state
if not state or state == 'not-done' or (ARGV[5] == '1' and state ~= 'done') then
  local attempts = (before and before.attempts or 0) + 1
  write(key, name, before, { state = 'started', token = token, attempts = attempts, result = '', error = '' })
end
return out
`)

/** KEYS: a claim. ARGV: token, fence, name, state, result, error. */
export const END_EFFECT = script(`${NOW}${HELD}${EFFECT}
local key, token, name = KEYS[1], ARGV[1], ARGV[3]
if not held(key, token, ARGV[2]) then return { 0 } end
local before = effect(key, name)
local attempts = before and before.attempts or 1
write(key, name, before, { state = ARGV[4], token = token, attempts = attempts, result = ARGV[5], error = ARGV[6] })
return { 1 }
`)

/** KEYS: a claim. */
export const EFFECTS = script(`${NOW}${EFFECT}
local out = {}
local fields = redis.call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do
  if string.sub(fields[i], 1, 2) == 'e:' then say(out, string.sub(fields[i], 3), cmsgpack.unpack(fields[i + 1])) end
end
return out
`)

/** Writes down what a person did; `act` is a name for this one action, so that it is done once. */
const DEED = `
local function was_done(key, act)
  return redis.call('HGET', key, 'o') == act
end
local function deed(key, act, audit)
  redis.call('HSET', key, 'o', act, 'w:' .. redis.call('HINCRBY', key, 'n', 1), now .. ' ' .. audit)
end
`

/** KEYS: a claim. ARGV: act, audit, name, state, result, error. */
export const SETTLE_EFFECT = script(`${NOW}${EFFECT}${DEED}
local key, act, name = KEYS[1], ARGV[1], ARGV[3]
if was_done(key, act) then return { 1 } end
local before = effect(key, name)
if not before or (before.state ~= 'started' and before.state ~= 'unknown') then return { 0 } end
write(key, name, before, { state = ARGV[4], result = ARGV[5], error = ARGV[6] })
deed(key, act, ARGV[2])
return { 1 }
`)

/** KEYS: a claim. ARGV: act, audit, seq. A retry that was interrupted is one as well. */
export const RETRY = script(`${NOW}${DEED}
local key, act, seq = KEYS[1], ARGV[1], ARGV[3]
local row = redis.call('HMGET', key, 's', 'q')
if row[2] ~= seq then return { 0 } end
if row[1] == 'o' then return { 1 } end
if row[1] ~= 'f' then return { 0 } end
redis.call('HSET', key, 's', 'o', 'k', '', 'p', '', 'u', 0, 'a', 0, 'x', 0)
deed(key, act, ARGV[2])
return { 1 }
`)

/** KEYS: a claim. ARGV: act, audit, seq. */
export const DISCARD = script(`${NOW}${DEED}
local key, act = KEYS[1], ARGV[1]
if was_done(key, act) then return { 1 } end
local row = redis.call('HMGET', key, 's', 'q', 'rt')
if row[1] ~= 'f' or row[2] ~= ARGV[3] then return { 0 } end
redis.call('HSET', key, 's', 'd')
redis.call('HDEL', key, 'me', 're', 'er', 'eh', 'fa', 'rt', 'c', 'q')
deed(key, act, ARGV[2])
if row[3] and row[3] ~= '' then redis.call('PEXPIRE', key, row[3]) end
return { 1 }
`)

/** KEYS: a claim. What people did to it: when, and what. */
export const DEEDS = script(`
local out = {}
local fields = redis.call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do
  if string.sub(fields[i], 1, 2) == 'w:' then out[#out + 1] = fields[i + 1] end
end
return out
`)

/** KEYS: a line. ARGV: how many. Answers in how many milliseconds the next one is due, and those that are. */
export const DUE = script(`${NOW}
local limit = tonumber(ARGV[1])
local due = redis.call('ZRANGE', KEYS[1], '-inf', now, 'BYSCORE', 'LIMIT', 0, limit)
local next = redis.call('ZRANGE', KEYS[1], '(' .. now, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
local left = next[2] and (tonumber(next[2]) - now) or ''
if #due == limit then left = 0 end
return { left, unpack(due) }
`)

/** KEYS: a line, or those on their way. ARGV: delay, entry. */
export const ENQUEUE = script(`${NOW}
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[1]), ARGV[2])
return {}
`)

/** KEYS: a line. ARGV: delay, entry. One that is not there any more stays away. */
export const POSTPONE = script(`${NOW}
redis.call('ZADD', KEYS[1], 'XX', now + tonumber(ARGV[1]), ARGV[2])
return {}
`)

/** KEYS: those on their way. ARGV: age. */
export const STRANDED = script(`${NOW}
return redis.call('ZRANGE', KEYS[1], '-inf', now - tonumber(ARGV[1]), 'BYSCORE', 'LIMIT', 0, 100)
`)

/** KEYS: what was seen. ARGV: how many at most, then what. Beyond that, nothing new is remembered. */
export const REMEMBER = script(`
for i = 2, #ARGV do
  if redis.call('SCARD', KEYS[1]) >= tonumber(ARGV[1]) then break end
  redis.call('SADD', KEYS[1], ARGV[i])
end
return {}
`)
