import { REMEMBERED } from '../../message/index.ts'

/** The fields of a history: how many failures there were, and the last of them. They go when the message is done. */
export const HISTORY_FIELDS = ['hn', 'hi'] as const

/** Lua: puts a line in front of the history of a claim, and leaves out those that are too many. Needs `now` and `more`. */
export const REMEMBERING: string = `
local function remember(key, attempt, entry)
  local lines = { string.format('%.0f %d ', now, attempt) .. entry }
  for line in string.gmatch(redis.call('HGET', more(key), 'hi') or '', '[^\\n]+') do
    if #lines < ${REMEMBERED} then lines[#lines + 1] = line end
  end
  local failures = (tonumber(redis.call('HGET', more(key), 'hn')) or 0) + 1
  redis.call('HSET', more(key), 'hn', string.format('%.0f', failures), 'hi', table.concat(lines, '\\n'))
end
`
