import { execFile } from 'node:child_process'
import { dirname, join } from 'node:path'
import { prometheus } from '../../scripts/services/prometheus.ts'
import { root } from './pages.ts'

/** Runs promtool in the folder of the repository; resolves with its exit code and all that it said. */
export async function promtool(args: readonly string[], input = ''): Promise<{ code: number; said: string }> {
  const server = prometheus.find()?.from
  if (server === undefined) throw new Error('expected Prometheus to be installed here')
  return await new Promise((resolve) => {
    const child = execFile(join(dirname(server), 'promtool'), args, { cwd: root }, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : 1
      resolve({ code, said: `${stdout}${stderr}` })
    })
    child.stdin?.on('error', () => {})
    child.stdin?.end(input)
  })
}
