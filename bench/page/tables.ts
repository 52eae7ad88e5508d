import { budgets } from '../../test/support/costs/budgets.ts'
import { aimText, figureText, type Line, metAim, type PartResult, type Results } from '../results.ts'

/** The sections of docs/performance.md that are made from the results, by the names of their markers. */
export function sections(results: Results): Readonly<Record<string, string>> {
  return { machine: machine(results), results: tables(results), misses: misses(results), costs: costs() }
}

/** A page with what stands between its markers, `<!-- name -->` and `<!-- /name -->`, replaced. */
export function withSections(page: string, contents: Readonly<Record<string, string>>): string {
  return Object.entries(contents).reduce((text, [name, content]) => {
    const [begin, end] = [`<!-- ${name} -->`, `<!-- /${name} -->`]
    const [from, to] = [text.indexOf(begin), text.indexOf(end)]
    if (from < 0 || to < from) throw new Error(`expected the page to have ${begin} and ${end}`)
    return `${text.slice(0, from + begin.length)}\n${content}\n${text.slice(to)}`
  }, page)
}

function machine({ machine: on, parts }: Results): string {
  const named = (versions: Readonly<Record<string, string>>): string =>
    Object.entries(versions)
      .map(([name, version]) => `${name} ${version}`)
      .join(', ')
  return [
    '| | |',
    '|---|---|',
    `| processor | ${on.cpu}, ${on.cores} cores |`,
    `| memory | ${on.memoryGiB} GiB |`,
    `| an append of 8 KiB until it is on disk | ${figureText(on.fsyncMs, 'ms')} |`,
    `| system | ${on.system}, Node.js ${on.node} |`,
    `| servers, on the same machine | ${on.servers.join(', ')} |`,
    `| clients | ${named(on.clients)} |`,
    `| other libraries | ${named(on.peers)} |`,
    ...runs(parts),
    ...(parts.some(({ quick }) => quick) ? ['', PROVISIONAL] : []),
  ].join('\n')
}

const PROVISIONAL =
  'Figures of a quick run are provisional: small sizes and few rounds, on a machine that did other work at the same time.'

/** When, and from which sources; one line where all parts are of one run. */
function runs(parts: readonly PartResult[]): string[] {
  const run = ({ date, commit, quick }: PartResult): string => `${date}, at ${commit}${quick ? ', a quick run' : ''}`
  const groups = Map.groupBy(parts, run)
  return [...groups].map(
    ([when, of]) => `| measured | ${when}${groups.size > 1 ? `: ${of.map(({ part }) => part).join(', ')}` : ''} |`,
  )
}

function tables({ parts }: Results): string {
  const lines = parts.flatMap((part) => part.lines)
  return [...Map.groupBy(lines, ({ title }) => title)].map(([title, of]) => table(title, of)).join('\n\n')
}

function table(title: string, lines: readonly Line[]): string {
  const rows = lines.map(
    (line) =>
      `| ${line.name} | ${figureText(line.hapax, line.unit)} | ${line.other === undefined ? '' : figureText(line.other, line.unit)} | ${verdict(line)} | ${aimText(line)} | ${line.floor?.toFixed(2) ?? ''} |`,
  )
  const notes = [...new Set(lines.flatMap(({ name, note }) => (note === undefined ? [] : [`- ${name}: ${note}`])))]
  return [
    `**${title}**`,
    '',
    '| | hapax | the other | ratio | aim | floor |',
    '|---|--:|--:|--:|--:|--:|',
    ...rows,
    ...(notes.length === 0 ? [] : ['', ...notes]),
  ].join('\n')
}

function verdict(line: Line): string {
  const ratio = line.ratio?.toFixed(2) ?? ''
  return line.aim === undefined || metAim(line) ? ratio : `${ratio} missed`.trimStart()
}

/** What each job may ask of a store, which a test checks. */
function costs(): string {
  const { postgres, mysql, sqlite } = budgets
  const rows = Object.entries(postgres).map(([job, onPostgres]) => {
    const [onMysql, onSqlite] = [new Map(Object.entries(mysql)).get(job), new Map(Object.entries(sqlite)).get(job)]
    return `| ${job} | ${onPostgres.roundTrips} | ${onPostgres.statements} | ${onMysql?.roundTrips} | ${onSqlite?.statements} |`
  })
  return [
    '| at most | PostgreSQL: round trips | statements | MariaDB: round trips | SQLite: statements |',
    '|---|--:|--:|--:|--:|',
    ...rows,
  ].join('\n')
}

function misses({ parts }: Results): string {
  const missed = parts.flatMap(({ lines }) => lines).filter((line) => line.aim !== undefined && !metAim(line))
  if (missed.length === 0) return 'None.'
  return missed
    .map((line) => {
      const value = line.aim?.of === 'hapax' ? figureText(line.hapax, line.unit) : line.ratio?.toFixed(2)
      const floor = line.floor === undefined ? '' : `; the floor is ${line.floor.toFixed(2)}`
      return `- ${line.title}, ${line.name}: ${value}, aim ${aimText(line)}${floor}`
    })
    .join('\n')
}
