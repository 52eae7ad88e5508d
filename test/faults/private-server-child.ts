import { say } from '../support/child.ts'
import { privateServer } from '../support/private-server.ts'
import { serverProcesses } from '../support/processes.ts'

const { directory } = await privateServer('redis')
await say({ directory, processes: serverProcesses('all') })
await new Promise(() => {})
