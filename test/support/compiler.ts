import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { root } from './pages.ts'

/** What the compiler says of a project: each diagnostic with what explains it, which is indented below it. */
export function diagnosticsOf(folder: string): Promise<readonly string[]> {
  const program = join(root, 'node_modules', '.bin', 'tsc')
  const args = ['--project', folder, '--checkers', '1', '--pretty', 'false']
  return new Promise((resolve, reject) => {
    execFile(program, args, { cwd: folder }, (error, stdout, stderr) => {
      // It exits with 1 or 2 because of what it says.
      if (error !== null && stdout === '') reject(new Error(`tsc failed: ${error.message}\n${stderr}`))
      else resolve(stdout.split(/\n(?=\S)/).filter((each) => each.trim() !== ''))
    })
  })
}
