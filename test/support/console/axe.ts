import axe from 'axe-core'
import type { Page } from 'playwright-core'

interface Violation {
  readonly id: string
  readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[]
}

/** What axe-core finds wrong in a page, in a line each. The debugger puts it there, so that the policy of the page stays as it is. */
export async function violations(page: Page): Promise<string[]> {
  await page.evaluate(axe.source)
  const found: readonly Violation[] = await page.evaluate(
    'axe.run(document, { resultTypes: ["violations"] }).then((run) => run.violations)',
  )
  return found.flatMap(({ id, nodes }) =>
    nodes.map(
      ({ html, failureSummary = '' }) => `${id}: ${html.slice(0, 200)} ${failureSummary.replaceAll(/\s+/g, ' ')}`,
    ),
  )
}
