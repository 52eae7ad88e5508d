// Prints the figures of the shape of the sources beside their targets: `npm run shape`. It needs no servers.
import { join } from 'node:path'
import { parseArgs, styleText } from 'node:util'
import { type Figure, isMet, sourceFigures, type Target, walkFigures } from './shape/figures.ts'
import { readTree } from './shape/sources.ts'
import { measureWalks } from './shape/walks.ts'

const help = `npm run shape -- [options]

  -v, --verbose  with what lies behind each figure: folders, files, names
  --json         for programs
  --strict       exits with 1 if a target is missed
  -h, --help`

const { values: options } = parseArgs({
  options: {
    verbose: { type: 'boolean', short: 'v', default: false },
    json: { type: 'boolean', default: false },
    strict: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h', default: false },
  },
})

if (options.help) console.log(help)
else process.exitCode = await main()

async function main(): Promise<number> {
  const root = join(import.meta.dirname, '..')
  // A tree in the middle of a change may not run; its other figures are still worth seeing.
  const walks = await measureWalks(root).catch((error: Error) => error)
  const figures = [...sourceFigures(readTree(root)), ...walkFigures(walks)]
  console.log(options.json ? asJson(figures) : figures.map(asText).join('\n'))
  return options.strict && !figures.every(isMet) ? 1 : 0
}

function asJson(figures: readonly Figure[]): string {
  return JSON.stringify(
    figures.map((figure) => ({ ...figure, met: isMet(figure) })),
    null,
    2,
  )
}

function asText(figure: Figure): string {
  const { name, value, of, target, details } = figure
  const mark = target === undefined ? '    ' : isMet(figure) ? styleText('green', 'ok  ') : styleText('red', 'miss')
  const number = value?.toLocaleString('en') ?? '?'
  const line = `${mark} ${name.padEnd(47)} ${number.padStart(7)}  ${targetText(target).padEnd(9)} ${of ?? ''}`.trimEnd()
  return options.verbose ? [line, ...details.map((detail) => `       ${detail}`)].join('\n') : line
}

function targetText(target: Target | undefined): string {
  if (target === undefined) return ''
  const [sign, bound] =
    'atMost' in target ? ['<=', target.atMost] : 'below' in target ? ['<', target.below] : ['>=', target.atLeast]
  return `${sign} ${bound.toLocaleString('en')}`
}
