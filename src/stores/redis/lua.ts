// What the scripts have in common.
//
// A claim is a string, because that is what Redis writes and compares fastest:
//
//    1      state: o open, d done, f failed
//    2-37   token of the lease, or of the last one; blank: it is not leased
//   38-47   fence
//   48-61   when it may be claimed: the lease ends, or the next attempt is due
//   62-67   attempts
//   68-70   claims without an end
//   71      0 if there is no more; 1 if there is; 2 if a response is part of it; 3 if both expire unless it is claimed again
//   72-85   when it was taken
//   86-99   when 48-61 was set: in the past, unless the clock went back
//   100-    the receipt: source, id, type and fingerprint as JSON
//
// It has no time to live before it is done: what is not finished stays, and only its lease ends. An exception is a request that was
// released: its client may never come back. More is a hash beside it, in the same slot, with the same time to live:
//
//   p er hn hi    the token that let go of it last, and why; how often it failed, and its history
//   c q l me re eh fa rt   of a failed message: consumer, its number and that of the failure before, the message, reason, hash of
//                 the error, when, and for how long the receipt is kept afterwards; q and me stay while a retry is under way
//   e:… effects by name    w:… what people did    n counts both    o the last thing that a person did
//   rs            the response to a request

/** Lua: the time of the server. */
export const NOW: string = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
`

/** Lua: reads and changes claims; changes need `now`. */
export const CLAIMS: string = `
local sub = string.sub
local NOBODY = string.rep(' ', 36)
local function moment(ms) return string.format('%014.0f', ms) end
local function more(key) return key .. ':more' end
local function has_more(v) return sub(v, 71, 71) > '0' end
local function known(key, v, field) return has_more(v) and redis.call('HGET', more(key), field) or '' end
-- Who has it, as a lease names itself: token and fence.
local function held(v, lease) return v and sub(v, 1, 1) == 'o' and sub(v, 2, 47) == lease end
local function said(key) redis.call('SETRANGE', key, 85, moment(now)) end
local function prolong(key, until_ms)
  redis.call('SETRANGE', key, 47, moment(until_ms))
  said(key)
end
-- When it may be claimed. If that was set at a time in the future, the clock went back, and the wait restarts from now.
local function due_of(key, v)
  local due, at = tonumber(sub(v, 48, 61)), tonumber(sub(v, 86, 99))
  if due <= now or at <= now then return due end
  prolong(key, now + due - at)
  return now + due - at
end
local function with_more(key) redis.call('SETRANGE', key, 70, '1') end
-- A cluster moves keys one by one: without the other half, a call that was made would seem not to have been.
local function torn(key, v) return v and has_more(v) and redis.call('EXISTS', more(key)) == 0 end
-- The server that a slot leaves refuses keys that it does not have, and what a script wrote before stays: so this comes before the first write.
local function reach_more(key) redis.call('EXISTS', more(key)) end
local TORN = redis.error_reply('TRYAGAIN half of a message is not on this node; the slot is being moved, or the key was evicted')
`

/** Lua: writes down what a person did; `act` is a name for this one action, so that it is done once. */
export const DEED: string = `
local function was_done(key, act)
  return redis.call('HGET', more(key), 'o') == act
end
local function deed(key, act, audit)
  redis.call('HSET', more(key), 'o', act, 'w:' .. redis.call('HINCRBY', more(key), 'n', 1), now .. ' ' .. audit)
end
`
