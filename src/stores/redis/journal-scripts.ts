import { type Script, script } from './commands.ts'
import { CLAIMS, DEED, NOW } from './lua.ts'

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
