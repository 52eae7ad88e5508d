// Express 4 beside Express 5, whose types have all that the tests use of it.
declare module 'express4' {
  import express = require('express')
  export = express
}
