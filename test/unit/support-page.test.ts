import { describe, expect, it, test } from 'vitest'
import { runtimeRows } from '../../scripts/runtimes/table.ts'
import { rows } from '../../scripts/servers/matrix.ts'
import { usual, versions } from '../../scripts/servers/versions.ts'
import { pages, read } from '../support/pages.ts'

/** What the matrix shows to work, or other commands run on: `MySQL 9.7`. */
const shown = versions
  .filter(({ name }) => usual.includes(name) || rows().some((row) => row.name === name && row.green))
  .map(({ says }) => says)

/** The versions that a text names after these servers: `MySQL 8.4 and 9.7`. */
function namedIn(text: string): readonly string[] {
  const servers = [...new Set(versions.map(({ says }) => says.slice(0, says.lastIndexOf(' '))))].join('|')
  return [...text.matchAll(new RegExp(`(${servers}) (\\d[\\d.]*(?:(?:, | and )\\d[\\d.]*)*)`, 'g'))].flatMap(
    ([, server, list = '']) =>
      list.split(/, | and /).map((version) => rowNameOf(`${server} ${version.replace(/\.$/, '')}`)),
  )
}

/** A version as its row has it, which may be less exact: Kafka 4 for Kafka 4.3. */
function rowNameOf(named: string): string {
  return versions.find(({ says }) => named === says || named.startsWith(`${says}.`))?.says ?? named
}

function rowOf(page: string, title: string): string {
  return (
    read(page)
      .split('\n')
      .find((line) => line.startsWith(`| ${title}`)) ?? ''
  )
}

describe('the matrix of servers', () => {
  it('has a row for each version, in their order', () => {
    expect(rows().map(({ name }) => name)).toEqual(versions.map(({ name }) => name))
  })

  it('has rows of the versions that they are named after', () => {
    const wrong = rows().filter(({ name, said }) => {
      const says = versions.find((version) => version.name === name)?.says
      return said !== undefined && said !== says && !said.startsWith(`${says}.`)
    })
    expect(wrong).toEqual([])
  })

  it('shows what the README names, and nothing else', () => {
    expect(namedIn(rowOf('README.md', 'Tested against')).toSorted()).toEqual(shown.toSorted())
  })

  it('shows what the page about brokers names', () => {
    const brokers = ['RabbitMQ', 'NATS', 'Redis', 'Valkey', 'Kafka']
    const named = read('docs/brokers/README.md')
      .split('\n')
      .filter((line) => line.startsWith('| ['))
      .flatMap(namedIn)
    const wanted = shown.filter((each) => brokers.some((broker) => each.startsWith(broker)))
    expect(named.toSorted()).toEqual(wanted.toSorted())
  })
})

describe('the table of runtimes', () => {
  const green = runtimeRows().filter(({ green }) => green)

  it('has no runtime on which a test failed', () => {
    expect(runtimeRows()).toEqual(green)
  })

  it('shows what the README names, and nothing else', () => {
    const row = rowOf('README.md', 'Runtimes')
    const named = [...row.matchAll(/(Node\.js|Bun|Deno) (\d[\d.]*(?:(?:, | and )\d[\d.]*)*)/g)].flatMap(
      ([, name, list = '']) => list.split(/, | and /).map((version) => `${name} ${version}`),
    )
    expect(named).toEqual(green.map(({ said }) => said.replace(/\.\d+$/, '')))
  })
})

test.for(pages().filter((page) => /^docs\/(stores|brokers)\//.test(page)))(
  '%s says nothing of tested versions that the matrix does not show',
  (page) => {
    const sentences = read(page)
      .replaceAll(/\s+/g, ' ')
      .split(/(?<=\.) /)
      .filter((sentence) => /\btest(s|ed)\b/.test(sentence) && !sentence.includes('not tested'))
    expect(sentences.flatMap(namedIn).filter((each) => !shown.includes(each))).toEqual([])
  },
)
