// Another process: works the messages of its parent, and tells it when each has taken effect.
import { sideOf } from '../latency.ts'

const [url = '', ...names] = process.argv.slice(2)
for (const name of names) {
  const side = await sideOf(name, url)
  await side.work(() => process.send?.(name))
}
process.send?.('ready')
process.on('disconnect', () => process.exit())
