import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { chromium as installed } from '../../../scripts/services/chromium.ts'

/** Why tests in a browser are skipped, if they are. */
export const withoutBrowser: string | undefined =
  installed.find() === undefined ? 'Chromium is not installed (Debian: chromium)' : undefined

/** Without a network of its own, and as root in a container. */
const ARGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

const LAUNCH_MS = 90_000

let started: Promise<Browser> | undefined

/** The browser of this test file. */
function browser(): Promise<Browser> {
  // Several files start theirs at once.
  started ??= chromium.launch({ executablePath: installed.find()?.from ?? '', args: ARGS, timeout: LAUNCH_MS })
  return started
}

/** Ends the browser of this test file, if one was started. */
export async function closeBrowser(): Promise<void> {
  await (await started)?.close()
  started = undefined
}

/** Who looks, and how. */
export interface Viewer {
  readonly actor?: string
  readonly role?: string
  readonly scheme?: 'light' | 'dark'
  readonly width?: number
  readonly height?: number
}

/** A tab that fails its test for what a browser complains about. */
export interface Tab extends AsyncDisposable {
  readonly page: Page
  readonly context: BrowserContext
  /** What went wrong in the page: violations of the policy, dialogs, errors. */
  readonly complaints: string[]
}

/** Opens a tab of a person: the host application knows them by two headers. */
export async function openTab(url: string, viewer: Viewer = {}): Promise<Tab> {
  const { actor = 'ada', role = 'admin', scheme = 'light', width = 1280, height = 800 } = viewer
  const context = await (await browser()).newContext({
    baseURL: url,
    colorScheme: scheme,
    viewport: { width, height },
    extraHTTPHeaders: { 'x-actor': actor, 'x-role': role },
    reducedMotion: 'reduce',
    locale: 'en-GB',
    timezoneId: 'Europe/Berlin',
  })
  context.setDefaultTimeout(50_000)
  const page = await context.newPage()
  const complaints: string[] = []
  await page.exposeFunction('complain', (text: string) => void complaints.push(text))
  await page.addInitScript(WATCH)
  page.on('dialog', (dialog) => {
    complaints.push(`dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
  page.on('pageerror', (error) => complaints.push(`error: ${error.message}`))
  return { page, context, complaints, [Symbol.asyncDispose]: () => context.close() }
}

const WATCH = `document.addEventListener('securitypolicyviolation', (event) =>
  complain('policy: ' + event.violatedDirective + ' ' + event.blockedURI + ' ' + event.sample))`
