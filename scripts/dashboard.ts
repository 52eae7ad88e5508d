// Makes the dashboard of Grafana again: `npm run dashboard`. A unit test fails where dashboards/hapax.json is not what this writes.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { boardText } from './dashboard/board.ts'

writeFileSync(join(import.meta.dirname, '..', 'dashboards', 'hapax.json'), boardText())
