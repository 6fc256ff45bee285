"""Reports as one HTML file that carries everything inside itself: figures, pictures, the SQL behind them."""
