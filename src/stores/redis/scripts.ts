import { type Script, script } from './commands.ts'
import { CLAIMS, DEED, NOW } from './lua.ts'
import { REMEMBERING } from './remembering.ts'

// What has to be decided in one step runs in Redis, by its clock, and returns flat lists: every client reads those alike. What a claim
// looks like is in lua.ts.

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
  if sub(v, 71, 71) == '3' then
    redis.call('PERSIST', key)
    redis.call('PERSIST', more(key))
    with_more(key)
  end
  local taken = token .. string.format('%010.0f', fence + 1) .. moment(now + lease) .. sub(v, 62, 67)
  redis.call('SETRANGE', key, 1, taken .. string.format('%03.0f', math.min(crashes + 1, 999)))
  said(key)
  return fence + 1, attempts, crashes
end
local out = {}
local function say(...)
  for i = 1, select('#', ...) do out[#out + 1] = select(i, ...) end
end
-- One of many is reported as torn, so that the others continue. The other half of a single one may be moving to another node: that is retried.
local torn_here = false
local function alone_and_torn() return torn_here and #KEYS == 1 end
`

/**
 * KEYS: claims, each once. ARGV: lease, alone (and strict, behind it); heads: tokens; words: receipts. Mostly nobody had any of them, and
 * one command sees to all; it writes nothing if there is one that somebody had.
 */
export const CLAIM: Script = script(`${NOW}${CLAIMS}${EACH}${TAKE}
local lease, alone, strict = tonumber(ARGV[1]), sub(ARGV[2], 1, 1) == '1', sub(ARGV[2], 2) == 's'
local fresh = '0000000001' .. moment(now + lease) .. '000000' .. '001' .. '0' .. moment(now) .. moment(now)
local values = {}
each(3, function(i, key, token, receipt)
  values[2 * i - 1], values[2 * i] = key, 'o' .. token .. fresh .. receipt
end)
if redis.call('MSETNX', unpack(values)) == 1 then return out end
each(3, function(i, key, token, receipt)
  local v = redis.call('SET', key, values[2 * i], 'NX', 'GET')
  if not v then
    say(1)
  elseif strict and sub(v, 100) ~= receipt then
    say('taken', 'd', '', sub(v, 2, 37), sub(v, 72, 85), sub(v, 100))
  elseif sub(v, 71, 71) == '2' then
    local response = redis.call('HGET', more(key), 'rs')
    if response then
      say('taken', 'r', response, sub(v, 2, 37), sub(v, 72, 85), sub(v, 100))
    else
      torn_here = true
      say('torn')
    end
  elseif sub(v, 1, 1) ~= 'o' then
    say('taken', sub(v, 1, 1), known(key, v, 'q'), sub(v, 2, 37), sub(v, 72, 85), sub(v, 100))
  else
    local owner, due = sub(v, 2, 37), due_of(key, v)
    if owner ~= token and due > now then
      if owner == NOBODY then say('waiting', due - now) else say('busy') end
    elseif owner ~= token and sub(v, 68, 70) ~= '000' and not alone then
      say('suspect', tonumber(sub(v, 68, 70)))
    elseif sub(v, 71, 71) == '3' and torn(key, v) then
      -- One half would stay, and the other one expire.
      torn_here = true
      say('torn')
    else
      say('ours', take(key, v, token, lease))
    end
  end
end)
return alone_and_torn() and TORN or out
`)

/** KEYS: claims. ARGV: lease; heads: tokens; words: the number of the failure that is tried again. */
export const CLAIM_STORED: Script = script(`${NOW}${CLAIMS}${EACH}${TAKE}
local lease = tonumber(ARGV[1])
each(2, function(_, key, token, seq)
  local v = redis.call('GET', key)
  local state = v and sub(v, 1, 1)
  if torn(key, v) then
    torn_here = true
    say('torn')
    return
  end
  local due = state == 'o' and due_of(key, v)
  if state == 'f' then
    say('failed', known(key, v, 'q'))
  elseif state ~= 'o' or known(key, v, 'q') ~= seq then
    say('gone')
  elseif sub(v, 2, 37) ~= token and due > now then
    say('busy', due - now)
  else
    say('ours', take(key, v, token, lease))
    say(sub(v, 100), redis.call('HGET', more(key), 'me'))
  end
end)
return alone_and_torn() and TORN or out
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

/** Ends a claim as done. ARGV[1] is how long to keep it. */
const DONE = `
-- One moment for both: were the claim gone before the rest, the next one would find a journal that is not its own.
local ends = ARGV[1] ~= '' and string.format('%.0f', now + ARGV[1])
local function forget(key)
  redis.call('HDEL', more(key), 'er', 'hn', 'hi', 'me', 're', 'eh', 'fa', 'rt', 'c')
  if ends then redis.call('PEXPIREAT', more(key), ends) end
end
local function settle(key, v, lease, response)
  if not v or sub(v, 2, 47) ~= lease or sub(v, 1, 1) == 'f' then return 0 end
  if sub(v, 1, 1) == 'o' then
    local done = 'd' .. sub(v, 2)
    if response then
      done = 'd' .. sub(v, 2, 70) .. '2' .. sub(v, 72)
      redis.call('HSET', more(key), 'rs', response)
    end
    if ends then redis.call('SET', key, done, 'PXAT', ends) else redis.call('SET', key, done) end
    if has_more(done) then forget(key) end
  end
  local retry = known(key, v, 'q')
  return retry == '' and 1 or '#' .. retry
end
`

/**
 * KEYS: claims. ARGV: how long to keep them; heads: who has them. Answers 0: it was not theirs; 1: done; or done, and the number of
 * the retry that is over, after a mark, because clients may read numbers as texts.
 */
export const SETTLE: Script = script(`${NOW}${CLAIMS}${EACH}${DONE}
local values = redis.call('MGET', unpack(KEYS))
if #KEYS == 1 and torn(KEYS[1], values[1]) then return TORN end
local out, plain = {}, true
each(2, function(i, key, lease)
  out[i] = torn(key, values[i]) and 0 or settle(key, values[i], lease)
  plain = plain and out[i] == 1
end)
return plain and {} or out
`)

/** KEYS: the claim of a request. ARGV: how long to keep it, who has it, the response. Answers as the script above. */
export const RESPOND: Script = script(`${NOW}${CLAIMS}${DONE}
local key = KEYS[1]
local v = redis.call('GET', key)
if torn(key, v) then return TORN end
return { settle(key, v, ARGV[2], ARGV[3]) }
`)

/**
 * KEYS: a claim. ARGV: token, fence, attempts, crashes, delay, error, entry or nothing, and when to forget it unless it is claimed
 * again. Answers whether, and the retry that it belongs to: one that a person asked for is not forgotten.
 */
export const RELEASE: Script = script(`${NOW}${CLAIMS}${REMEMBERING}
local key, token = KEYS[1], ARGV[1]
local v = redis.call('GET', key)
if torn(key, v) then return TORN end
if held(v, token .. ARGV[2]) then
  reach_more(key)
  local attempts = string.format('%06.0f', math.min(tonumber(ARGV[3]), 999999))
  local crashes = string.format('%03.0f', math.min(tonumber(ARGV[4]), 999))
  local open = NOBODY .. ARGV[2] .. moment(now + tonumber(ARGV[5])) .. attempts .. crashes .. '1'
  redis.call('SETRANGE', key, 1, open)
  said(key)
  redis.call('HSET', more(key), 'p', token, 'er', ARGV[6])
  if ARGV[7] ~= '' then remember(key, tonumber(ARGV[3]), ARGV[7]) end
  if ARGV[8] and not redis.call('HGET', more(key), 'q') then
    local ends = string.format('%.0f', now + ARGV[8])
    redis.call('SETRANGE', key, 70, '3')
    redis.call('PEXPIREAT', key, ends)
    redis.call('PEXPIREAT', more(key), ends)
  end
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
reach_more(key)
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
local blank = 'f' .. NOBODY .. '0000000000' .. moment(0) .. '000000' .. '000' .. '1' .. moment(now) .. moment(now)
local v = redis.call('SET', key, blank .. ARGV[2], 'NX', 'GET')
if v then return { sub(v, 1, 1) == 'f' and known(key, v, 'q') or '' } end
redis.call('HSET', more(key), 'q', seq, 'fa', now, unpack(ARGV, 5))
remember(key, tonumber(ARGV[3]), ARGV[4])
return { seq }
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

/** KEYS: a claim. ARGV: which fields. Answers state, token, due, attempts, taken, receipt, whether half is missing, and the fields; or nothing. */
export const READ: Script = script(`${CLAIMS}
local key = KEYS[1]
local v = redis.call('GET', key)
if not v then return {} end
local out = { sub(v, 1, 1), sub(v, 2, 37), sub(v, 48, 61), sub(v, 62, 67), sub(v, 72, 85), sub(v, 100), torn(key, v) and 1 or 0 }
for i, field in ipairs(ARGV) do out[7 + i] = redis.call('HGET', more(key), field) end
return out
`)

/** KEYS: a claim. What people did to it, in this order: when, and what. */
export const DEEDS: Script = script(`${CLAIMS}
local numbers, told, out = {}, {}, {}
local fields = redis.call('HGETALL', more(KEYS[1]))
for i = 1, #fields, 2 do
  if sub(fields[i], 1, 2) == 'w:' then
    local number = tonumber(sub(fields[i], 3))
    numbers[#numbers + 1] = number
    told[number] = fields[i + 1]
  end
end
table.sort(numbers)
for i, number in ipairs(numbers) do out[i] = told[number] end
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

/** Lua: makes entries due now that are due in the future, because the clock may have gone back. */
const EARLY = `
for _, entry in ipairs(redis.call('ZRANGE', KEYS[1], '(' .. now, '+inf', 'BYSCORE', 'LIMIT', 0, 1000)) do
  redis.call('ZADD', KEYS[1], 'XX', now, entry)
end
`

/** KEYS: a line. Its entries are checked early; their claims hold the real due times. */
export const REVIEW: Script = script(`${NOW}${EARLY}
return {}
`)

/** KEYS: entries in transit. ARGV: age. Entry times in the future are set to now. */
export const STRANDED: Script = script(`${NOW}${EARLY}
return redis.call('ZRANGE', KEYS[1], '-inf', now - tonumber(ARGV[1]), 'BYSCORE', 'LIMIT', 0, 100)
`)
