import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { PrivateServer, PrivateServerOptions } from './private-server.ts'

/**
 * Waits until RabbitMQ has a new quorum queue on disk. It is about a second late with that: killed before, it comes back with a
 * queue that has lost its messages, also those that it had confirmed, and that never answers.
 */
export async function untilQueueIsKept({ directory }: PrivateServer, queue: string): Promise<void> {
  const names = join(directory, 'data', 'rabbit@localhost', 'quorum', 'rabbit@localhost', 'names.dets')
  while (!readFileSync(names).includes(`%2F_${queue}`)) await delay(20)
}

const hold = 'hold'

// In Erlang, as below: a queue that stands still confirms nothing.
const holding = `
  Wait = fun(Wait) ->
    timer:sleep(20),
    case filelib:is_file("${hold}") of
      true ->
        {ok, Queue} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"held">>)),
        sys:suspend(amqqueue:get_pid(Queue)),
        file:delete("${hold}");
      false -> Wait(Wait)
    end
  end,
  spawn(fun() -> Wait(Wait) end).`

/** Lets the classic queue `held` of a private RabbitMQ be stopped. */
export const withHeldQueue: PrivateServerOptions = { args: ['-eval', holding.replaceAll('\n', ' ')] }

/** Resolves when the queue `held` stands still. */
export async function holdQueue({ directory }: PrivateServer): Promise<void> {
  const file = join(directory, hold)
  writeFileSync(file, '')
  while (existsSync(file)) await delay(20)
}

const alarm = 'alarm'

// In Erlang, because nothing else reaches a node without distribution: while the file is there, any use of memory is too much.
const watch = `
  Watch = fun(Watch, Before) ->
    timer:sleep(20),
    Now = filelib:is_file("${alarm}"),
    Limit = case Now of true -> 0.00001; false -> 0.4 end,
    Now =:= Before orelse vm_memory_monitor:set_vm_memory_high_watermark(Limit),
    Watch(Watch, Now)
  end,
  spawn(fun() -> Watch(Watch, false) end).`

/** Lets a private RabbitMQ be told that its memory is full. */
export const withMemoryAlarm: PrivateServerOptions = { args: ['-eval', watch.replaceAll('\n', ' ')] }

/** Soon after, RabbitMQ blocks each connection at the next message that it publishes. */
export function raiseMemoryAlarm({ directory }: PrivateServer): void {
  writeFileSync(join(directory, alarm), '')
}

export function clearMemoryAlarm({ directory }: PrivateServer): void {
  rmSync(join(directory, alarm), { force: true })
}
